#ifndef FERMATA_ENGINE_MODEL_LAYOUTS_GGUF_H_
#define FERMATA_ENGINE_MODEL_LAYOUTS_GGUF_H_

#include <string_view>

#include "absl/status/status.h"
#include "engine/model/checkpoint.h"
#include "nlohmann/json.hpp"

namespace fermata {

// What the layouts of llama.cpp's GGUF files share.

// Far more than any size that a model has.
inline constexpr int64_t kMaxGgufSize = int64_t{1} << 24;

// Whether the checkpoint is a GGUF of this `general.architecture`.
bool IsGgufOf(const Checkpoint& checkpoint, std::string_view architecture);

// Sets bos_token_id and eos_token_id as far as the file's tokenizer has them.
absl::Status PassGgufTokensOn(const GgufFile& gguf, nlohmann::json& made);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUTS_GGUF_H_
