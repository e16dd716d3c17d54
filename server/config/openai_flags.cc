#include "server/config/openai_flags.h"

#include "absl/flags/flag.h"
#include "engine/base/status.h"
#include "server/config/flag_checks.h"

ABSL_FLAG(std::string, chat_template, "auto",
          "How chats are written for the model: plain, rwkv, chatml, llama2, mistral, llama3, or "
          "auto: as the model's own files say, as far as that is one of these.");
ABSL_FLAG(int, chat_max_tokens, 4096, "Tokens of a chat's answer whose request names no limit.");
ABSL_FLAG(absl::Duration, stream_ping_interval, absl::Seconds(10),
          "Silence after which a stream of events gets a comment, so that nobody on its way takes "
          "it for dead while a long prompt is read.");

namespace fermata {

absl::StatusOr<OpenAiOptions> OpenAiFromFlags() {
  OpenAiOptions options;
  FERMATA_ASSIGN_OR_RETURN(options.chat_template,
                           Choose<std::string>("chat_template", absl::GetFlag(FLAGS_chat_template),
                                               {{"auto", "auto"},
                                                {"plain", "plain"},
                                                {"rwkv", "rwkv"},
                                                {"chatml", "chatml"},
                                                {"llama2", "llama2"},
                                                {"mistral", "mistral"},
                                                {"llama3", "llama3"}}));
  options.chat_max_tokens = absl::GetFlag(FLAGS_chat_max_tokens);
  FERMATA_RETURN_IF_ERROR(CheckInt("chat_max_tokens", options.chat_max_tokens, 1, 1 << 20));
  options.ping_interval = absl::GetFlag(FLAGS_stream_ping_interval);
  FERMATA_RETURN_IF_ERROR(CheckDuration("stream_ping_interval", options.ping_interval,
                                        absl::Milliseconds(10), absl::Hours(1)));
  return options;
}

}  // namespace fermata
