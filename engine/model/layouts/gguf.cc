#include "engine/model/layouts/gguf.h"

#include <limits>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace fermata {

bool IsGgufOf(const Checkpoint& checkpoint, std::string_view architecture) {
  return checkpoint.gguf() != nullptr &&
         checkpoint.gguf()->String("general.architecture", "").value_or("") == architecture;
}

absl::Status PassGgufTokensOn(const GgufFile& gguf, nlohmann::json& made) {
  const std::pair<const char*, const char*> fields[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token_id"},
      {"tokenizer.ggml.eos_token_id", "eos_token_id"}};
  for (const auto& [key, field] : fields) {
    if (!gguf.Has(key)) continue;
    FERMATA_ASSIGN_OR_RETURN(made[field], gguf.Int(key, 0, std::numeric_limits<int32_t>::max()));
  }
  return absl::OkStatus();
}

}  // namespace fermata
