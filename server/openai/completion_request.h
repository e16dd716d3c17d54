#ifndef FERMATA_SERVER_OPENAI_COMPLETION_REQUEST_H_
#define FERMATA_SERVER_OPENAI_COMPLETION_REQUEST_H_

#include "absl/status/statusor.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/http/message.h"
#include "server/openai/openai_request.h"

namespace fermata {

// What the body of POST /v1/completions asks for. INVALID_ARGUMENT that names the field; NOT_FOUND for
// another model than `served`. With long prompts it takes its time.
absl::StatusOr<OpenAiRequest> ReadCompletionRequest(const HttpRequest& http,
                                                    const std::string& served,
                                                    const Tokenizer& tokenizer);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_COMPLETION_REQUEST_H_
