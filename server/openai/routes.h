#ifndef FERMATA_SERVER_OPENAI_ROUTES_H_
#define FERMATA_SERVER_OPENAI_ROUTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/calls/front.h"
#include "server/config/openai_flags.h"
#include "server/http/router.h"

namespace fermata {

// Adds OpenAI's routes: POST /v1/completions and /v1/chat/completions, GET /v1/models and
// /v1/models/{id}, and, as vLLM has them, POST /v1/tokenize and /v1/detokenize. docs/openai.md says
// what they understand. `front` must outlive the router.
void AddOpenAiRoutes(const Front& front, HttpRouter& router, OpenAiOptions options);

// The name of the template that chats will be written in, or why they will be refused: for the log, when
// the model is there.
absl::StatusOr<std::string> ChatTemplateFor(const Runtime& runtime, const OpenAiOptions& options);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_ROUTES_H_
