#include "server/openai/routes.h"

#include "server/openai/chat_template_choice.h"

namespace fermata {

absl::StatusOr<const ChatTemplate*> OpenAiService::chat_template(const Runtime& runtime) {
  const std::lock_guard lock(mutex_);
  if (!chat_template_.has_value()) {
    chat_template_ = ChooseChatTemplate(options_.chat_template, options_.model_path,
                                        runtime.model(), runtime.tokenizer());
  }
  return *chat_template_;
}

int32_t EndToken(const ModelInfo& model) {
  return model.eos_token_ids.empty() ? -1 : model.eos_token_ids.front();
}

void AddOpenAiRoutes(const SharedService& service, HttpRouter& router) {
  const auto add = [&](const char* method, const char* path,
                       Awaitable<void> (*handler)(SharedService, HttpExchange&)) {
    router.Add(
        {.method = method, .path = path, .handler = [service, handler](HttpExchange& exchange) {
           return handler(service, exchange);
         }});
  };
  add("POST", "/v1/completions", CreateCompletion);
  add("POST", "/v1/chat/completions", CreateChatCompletion);
  add("GET", "/v1/models", ListModels);
  add("GET", "/v1/models/{id}", GetModel);
  add("POST", "/v1/tokenize", Tokenize);
  add("POST", "/v1/detokenize", Detokenize);
}

}  // namespace fermata
