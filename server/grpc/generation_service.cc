#include "server/grpc/generation_service.h"

#include "server/calls/text_calls.h"
#include "server/grpc/generate_reactor.h"
#include "server/grpc/score_reactor.h"
#include "server/grpc/unary_call.h"

namespace fermata {

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return StartGenerate(front_, *context, *request);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Attach(
    grpc::CallbackServerContext* context, const v1::AttachRequest* request) {
  return StartAttach(front_, *context, *request);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return AnswerLater(front_, *front_.helper, context, "Tokenize",
                     Bind(fermata::Tokenize, front_, request, response));
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return AnswerLater(front_, *front_.helper, context, "Detokenize",
                     Bind(fermata::Detokenize, front_, request, response));
}

grpc::ServerUnaryReactor* GenerationService::Score(grpc::CallbackServerContext* context,
                                                   const v1::ScoreRequest* request,
                                                   v1::ScoreResponse* response) {
  return StartScore(front_, *context, *request, response);
}

}  // namespace fermata
