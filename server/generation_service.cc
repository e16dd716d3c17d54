#include "server/generation_service.h"

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/generate_reactor.h"
#include "server/score_reactor.h"
#include "server/unary_call.h"

namespace fermata {
namespace {

absl::Status DetokenizeNow(const Tokenizer& tokenizer, int64_t vocab_size,
                           const v1::DetokenizeRequest& request, v1::DetokenizeResponse* response) {
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return InvalidField("token_ids[" + std::to_string(i) + "]",
                          std::to_string(ids[i]) + " is not in the vocabulary of " +
                              std::to_string(vocab_size) + " tokens");
    }
  }
  response->set_text(tokenizer.Decode(ids, request.keep_special()));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext*, const v1::GenerateRequest* request) {
  return StartGenerate(front_, *request);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Attach(
    grpc::CallbackServerContext*, const v1::AttachRequest* request) {
  return StartAttach(front_, *request);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return AnswerLater(front_, *front_.helper, context, "Tokenize",
                     [this, request, response](Runtime& runtime) {
                       const std::vector<int32_t> ids =
                           runtime.tokenizer().Encode(request->text(), request->parse_special());
                       response->mutable_token_ids()->Add(ids.begin(), ids.end());
                       return CheckReplySize(front_, response->ByteSizeLong());
                     });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return AnswerLater(
      front_, *front_.helper, context, "Detokenize", [this, request, response](Runtime& runtime) {
        FERMATA_RETURN_IF_ERROR(
            DetokenizeNow(runtime.tokenizer(), runtime.model().vocab_size, *request, response));
        return CheckReplySize(front_, response->ByteSizeLong());
      });
}

grpc::ServerUnaryReactor* GenerationService::Score(grpc::CallbackServerContext*,
                                                   const v1::ScoreRequest* request,
                                                   v1::ScoreResponse* response) {
  return StartScore(front_, *request, response);
}

}  // namespace fermata
