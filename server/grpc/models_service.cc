#include "server/grpc/models_service.h"

#include "server/calls/text_calls.h"
#include "server/grpc/unary_call.h"

namespace fermata {

grpc::ServerUnaryReactor* ModelsService::Get(grpc::CallbackServerContext* context,
                                             const v1::GetModelRequest* request,
                                             v1::Model* response) {
  return AnswerNow(front_, context, "GetModel", Bind(GetModel, front_, request, response));
}

}  // namespace fermata
