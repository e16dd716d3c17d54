#include "server/models_service.h"

#include "server/convert.h"
#include "server/unary_call.h"

namespace fermata {

grpc::ServerUnaryReactor* ModelsService::Get(grpc::CallbackServerContext* context,
                                             const v1::GetModelRequest*, v1::Model* response) {
  return AnswerNow(front_, context, "GetModel", [&](Runtime& runtime) {
    FillModel(runtime.model(), runtime.tokenizer().kind(), response);
    return absl::OkStatus();
  });
}

}  // namespace fermata
