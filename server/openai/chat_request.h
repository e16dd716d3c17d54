#ifndef FERMATA_SERVER_OPENAI_CHAT_REQUEST_H_
#define FERMATA_SERVER_OPENAI_CHAT_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/message.h"
#include "server/openai/chat_message.h"
#include "server/openai/openai_request.h"

namespace fermata {

// A request whose one prompt is still to be made of the messages.
struct ChatRequest {
  OpenAiRequest request;
  std::vector<ChatMessage> messages;
};

// What the body of POST /v1/chat/completions asks for. `max_tokens` is for those that name no limit.
// INVALID_ARGUMENT that names the field; NOT_FOUND for another model than `served`.
absl::StatusOr<ChatRequest> ReadChatRequest(const HttpRequest& http, const std::string& served,
                                            int32_t max_tokens);

// The field "messages": at least one.
absl::StatusOr<std::vector<ChatMessage>> ReadMessages(const JsonFields& fields);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_REQUEST_H_
