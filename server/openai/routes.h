#ifndef FERMATA_SERVER_OPENAI_ROUTES_H_
#define FERMATA_SERVER_OPENAI_ROUTES_H_

#include "server/http/router.h"
#include "server/openai/service.h"

namespace fermata {

// Adds OpenAI's routes: POST /v1/completions and /v1/chat/completions, GET /v1/models and
// /v1/models/{id}, and, as vLLM has them, POST /v1/tokenize and /v1/detokenize. docs/openai.md says
// what they understand.
void AddOpenAiRoutes(const SharedService& service, HttpRouter& router);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_ROUTES_H_
