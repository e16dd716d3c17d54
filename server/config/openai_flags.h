#ifndef FERMATA_SERVER_CONFIG_OPENAI_FLAGS_H_
#define FERMATA_SERVER_CONFIG_OPENAI_FLAGS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fermata {

struct OpenAiOptions {
  std::string chat_template = "auto";  // Or the name of a template.
  int32_t chat_max_tokens = 4096;      // Of chats that name no limit.
  // How long a stream may be silent before it shows that it is alive.
  absl::Duration ping_interval = absl::Seconds(10);
  // Resolved: the model's own chat template is read from there. Of no flag.
  std::string model_path;
};

inline constexpr std::array<std::string_view, 3> kOpenAiFlags = {"chat_template", "chat_max_tokens",
                                                                 "stream_ping_interval"};

// As the flags say. INVALID_ARGUMENT naming the flag and the reason.
absl::StatusOr<OpenAiOptions> OpenAiFromFlags();

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_OPENAI_FLAGS_H_
