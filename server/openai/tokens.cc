#include <memory>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/scheduler/prompt.h"
#include "server/http/answer.h"
#include "server/http/json.h"
#include "server/openai/chat_request.h"
#include "server/openai/identified_exchange.h"
#include "server/openai/json_fields.h"
#include "server/openai/reply.h"
#include "server/openai/service.h"

namespace fermata {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const JsonFields& fields,
                                                    const Tokenizer& tokenizer) {
  FERMATA_ASSIGN_OR_RETURN(const auto text, fields.String("prompt"));
  FERMATA_ASSIGN_OR_RETURN(const auto parse_special, fields.Bool("parse_special"));
  FERMATA_ASSIGN_OR_RETURN(const auto add_special, fields.Bool("add_special_tokens"));
  if (!text.has_value()) return fields.Error("prompt", "must be given, or messages");
  Prompt prompt;
  prompt.text = *text;
  prompt.parse_special = parse_special.value_or(false);
  if (add_special.value_or(true)) return EncodePrompt(tokenizer, prompt, TextPlace::kStart);
  return tokenizer.Encode(prompt.text, prompt.parse_special);
}

absl::StatusOr<std::vector<int32_t>> TokenizeChat(const JsonFields& fields, OpenAiService& service,
                                                  const Runtime& runtime) {
  if (fields.Find("prompt") != nullptr) {
    return fields.Error("prompt", "can not stand together with messages");
  }
  FERMATA_ASSIGN_OR_RETURN(const std::vector<ChatMessage> messages, ReadMessages(fields));
  FERMATA_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, service.chat_template(runtime));
  return RenderChat(*chat_template, runtime.tokenizer(), messages, {}, EndToken(runtime.model()));
}

absl::StatusOr<HttpResponse> AnswerTokenize(const std::string& text, OpenAiService& service,
                                            const Runtime& runtime) {
  FERMATA_ASSIGN_OR_RETURN(const json body, ParseBody(text));
  FERMATA_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(body));
  FERMATA_RETURN_IF_ERROR(CheckModel(fields, runtime.model().name));
  const bool chat = fields.Find("messages") != nullptr;
  FERMATA_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      chat ? TokenizeChat(fields, service, runtime) : TokenizePrompt(fields, runtime.tokenizer()));
  const ordered_json answer = {{"count", ids.size()}, {"tokens", ids}};
  return JsonResponse(answer);
}

absl::StatusOr<HttpResponse> AnswerDetokenize(const std::string& text, const Runtime& runtime) {
  FERMATA_ASSIGN_OR_RETURN(const json body, ParseBody(text));
  FERMATA_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(body));
  FERMATA_RETURN_IF_ERROR(CheckModel(fields, runtime.model().name));
  if (fields.Find("tokens") == nullptr) return fields.Error("tokens", "must be given");
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, fields.TokenIds("tokens"));
  FERMATA_ASSIGN_OR_RETURN(const auto keep_special, fields.Bool("keep_special"));
  const int64_t vocab_size = runtime.model().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocab_size) {
      return InvalidField(ElementPath("tokens", i), "is outside the vocabulary");
    }
  }
  const ordered_json answer = {
      {"prompt", runtime.tokenizer().Decode(ids, keep_special.value_or(true))}};
  return JsonResponse(answer);
}

}  // namespace

Awaitable<void> Tokenize(SharedService service, HttpExchange& outer) {
  IdentifiedExchange exchange(outer);
  const auto body = std::make_shared<const std::string>(outer.request().body);
  std::function<absl::StatusOr<HttpResponse>(Runtime&)> work = [service, body](Runtime& runtime) {
    return AnswerTokenize(*body, *service, runtime);
  };
  const Front& front = service->front();
  co_await AnswerLater(front, exchange, *front.helper, "Tokenize", std::move(work));
}

Awaitable<void> Detokenize(SharedService service, HttpExchange& outer) {
  IdentifiedExchange exchange(outer);
  const auto body = std::make_shared<const std::string>(outer.request().body);
  std::function<absl::StatusOr<HttpResponse>(Runtime&)> work = [body](Runtime& runtime) {
    return AnswerDetokenize(*body, runtime);
  };
  const Front& front = service->front();
  co_await AnswerLater(front, exchange, *front.helper, "Detokenize", std::move(work));
}

}  // namespace fermata
