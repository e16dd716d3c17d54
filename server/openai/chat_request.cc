#include "server/openai/chat_request.h"

#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/sampling/sampler.h"
#include "server/http/json.h"

namespace fermata {
namespace {

using nlohmann::json;

constexpr size_t kMaxMessages = 4096;

absl::StatusOr<ChatRole> ReadRole(const JsonFields& message) {
  FERMATA_ASSIGN_OR_RETURN(const auto role, message.String("role"));
  if (!role.has_value()) return message.Error("role", "must be given");
  if (*role == "system" || *role == "developer") return ChatRole::kSystem;
  if (*role == "user") return ChatRole::kUser;
  if (*role == "assistant") return ChatRole::kAssistant;
  return message.Error("role", "must be system, developer, user or assistant; " + Quoted(*role) +
                                   " is not supported");
}

// The field "type" as JSON has it; empty when it is no string.
std::string TypeOf(const JsonFields& fields) {
  const json* type = fields.Find("type");
  return type == nullptr || !type->is_string() ? "" : type->get<std::string>();
}

absl::StatusOr<std::string> ReadParts(const JsonFields& message) {
  std::string text;
  size_t index = 0;
  for (const json& element : *message.Find("content")) {
    FERMATA_ASSIGN_OR_RETURN(
        const JsonFields part,
        JsonFields::Of(element, ElementPath(message.PathOf("content"), index++)));
    const std::string type = TypeOf(part);
    if (type != "text") {
      return part.Error("type",
                        "must be text; " + Quoted(type) + " is not supported by this model");
    }
    FERMATA_ASSIGN_OR_RETURN(const auto part_text, part.String("text"));
    if (!part_text.has_value()) return part.Error("text", "must be given");
    text += *part_text;
  }
  return text;
}

absl::StatusOr<ChatMessage> ReadMessage(const JsonFields& fields) {
  ChatMessage message;
  FERMATA_ASSIGN_OR_RETURN(message.role, ReadRole(fields));
  for (const char* field : {"tool_calls", "function_call", "audio"}) {
    const json* value = fields.Find(field);
    if (value != nullptr && !value->empty()) return fields.Error(field, "is not supported");
  }
  const json* content = fields.Find("content");
  if (content == nullptr) {
    // What an assistant that was cut off at once has said.
    if (message.role == ChatRole::kAssistant) return message;
    return fields.Error("content", "must be given");
  }
  if (content->is_string()) {
    message.content = content->get<std::string>();
  } else if (content->is_array()) {
    FERMATA_ASSIGN_OR_RETURN(message.content, ReadParts(fields));
  } else {
    return fields.Error("content", "must be a string, or a list of text parts");
  }
  return message;
}

// What would change the answer, and can not be done.
absl::Status RefuseUnsupported(const JsonFields& fields) {
  for (const char* field : {"tools", "functions", "audio"}) {
    const json* value = fields.Find(field);
    if (value != nullptr && !value->empty()) return fields.Error(field, "is not supported");
  }
  FERMATA_ASSIGN_OR_RETURN(const auto format, fields.Object("response_format"));
  if (format.has_value() && TypeOf(*format) != "text") {
    return format->Error("type", "must be text");
  }
  FERMATA_ASSIGN_OR_RETURN(const auto modalities, fields.Strings("modalities"));
  for (const std::string& modality : modalities) {
    if (modality != "text") return fields.Error("modalities", "must be [\"text\"]");
  }
  return absl::OkStatus();
}

absl::Status ReadLimit(const JsonFields& fields, int32_t max_tokens, OpenAiRequest& request) {
  // The newer name, and the older one.
  const bool newer = fields.Find("max_completion_tokens") != nullptr;
  const std::string name = newer ? "max_completion_tokens" : "max_tokens";
  FERMATA_ASSIGN_OR_RETURN(const auto limit, fields.Int(name, 0, kMaxNewTokens));
  request.turn.mutable_sampling()->set_max_new_tokens(
      static_cast<int32_t>(limit.value_or(max_tokens)));
  request.names.emplace("sampling.max_new_tokens", name);
  return absl::OkStatus();
}

absl::Status ReadLogprobs(const JsonFields& fields, OpenAiRequest& request) {
  FERMATA_ASSIGN_OR_RETURN(const auto logprobs, fields.Bool("logprobs"));
  FERMATA_ASSIGN_OR_RETURN(const auto top, fields.Int("top_logprobs", 0, kMaxLogprobs));
  if (!logprobs.value_or(false)) {
    if (top.value_or(0) == 0) return absl::OkStatus();
    return fields.Error("top_logprobs", "needs logprobs to be true");
  }
  request.logprobs = static_cast<int32_t>(top.value_or(0));
  request.turn.mutable_sampling()->set_logprobs(*request.logprobs);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ChatMessage>> ReadMessages(const JsonFields& fields) {
  const json* list = fields.Find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return fields.Error("messages", "must be a list of at least one message");
  }
  if (list->size() > kMaxMessages) {
    return fields.Error("messages", "are more than " + std::to_string(kMaxMessages));
  }
  std::vector<ChatMessage> messages;
  for (const json& element : *list) {
    FERMATA_ASSIGN_OR_RETURN(
        const JsonFields message,
        JsonFields::Of(element, ElementPath(fields.PathOf("messages"), messages.size())));
    FERMATA_ASSIGN_OR_RETURN(ChatMessage read, ReadMessage(message));
    messages.push_back(std::move(read));
  }
  return messages;
}

absl::StatusOr<ChatRequest> ReadChatRequest(const HttpRequest& http, const std::string& served,
                                            int32_t max_tokens) {
  FERMATA_ASSIGN_OR_RETURN(const json body, ParseBody(http.body));
  FERMATA_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(body));
  FERMATA_RETURN_IF_ERROR(CheckModel(fields, served));
  ChatRequest chat;
  OpenAiRequest& request = chat.request;
  FERMATA_RETURN_IF_ERROR(ReadCommonFields(fields, http, request));
  FERMATA_RETURN_IF_ERROR(ReadLimit(fields, max_tokens, request));
  FERMATA_RETURN_IF_ERROR(ReadLogprobs(fields, request));
  FERMATA_RETURN_IF_ERROR(RefuseUnsupported(fields));
  for (const char* name : {"token_ids", "prompt"}) request.names.emplace(name, "messages");
  request.names.emplace("sampling.logprobs", "top_logprobs");
  FERMATA_ASSIGN_OR_RETURN(chat.messages, ReadMessages(fields));
  FERMATA_RETURN_IF_ERROR(CheckTogether(request));
  return chat;
}

}  // namespace fermata
