#ifndef FERMATA_SERVER_OPENAI_SERVICE_H_
#define FERMATA_SERVER_OPENAI_SERVICE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/calls/front.h"
#include "server/config/openai_flags.h"
#include "server/http/exchange.h"
#include "server/openai/chat_template.h"
#include "server/openai/kept_prompts.h"

namespace fermata {

// What the routes of OpenAI's API share. Thread-safe.
class OpenAiService {
 public:
  // `front` must outlive it.
  OpenAiService(const Front& front, OpenAiOptions options)
      : front_(front), options_(std::move(options)), since_(absl::Now()) {}

  const Front& front() const { return front_; }
  const OpenAiOptions& options() const { return options_; }
  absl::Time since() const { return since_; }
  KeptPrompts& prompts() { return prompts_; }

  // What chats are written in, or why they are refused. Reads files the first time that it is asked for.
  absl::StatusOr<const ChatTemplate*> chat_template(const Runtime& runtime);

 private:
  const Front& front_;
  const OpenAiOptions options_;
  const absl::Time since_;
  KeptPrompts prompts_;
  std::mutex mutex_;
  std::optional<absl::StatusOr<const ChatTemplate*>> chat_template_;
};

using SharedService = std::shared_ptr<OpenAiService>;

// The routes' handlers.
Awaitable<void> CreateCompletion(SharedService service, HttpExchange& exchange);
Awaitable<void> CreateChatCompletion(SharedService service, HttpExchange& exchange);
Awaitable<void> ListModels(SharedService service, HttpExchange& exchange);
Awaitable<void> GetModel(SharedService service, HttpExchange& exchange);
Awaitable<void> Tokenize(SharedService service, HttpExchange& exchange);
Awaitable<void> Detokenize(SharedService service, HttpExchange& exchange);

// The token that ends a text of the model's, or -1.
int32_t EndToken(const ModelInfo& model);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_SERVICE_H_
