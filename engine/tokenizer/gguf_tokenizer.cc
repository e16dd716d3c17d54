#include "engine/tokenizer/gguf_tokenizer.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace fermata {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

std::string Key(std::string_view field) { return "tokenizer.ggml." + std::string(field); }

absl::StatusOr<std::optional<int32_t>> Id(const GgufFile& file, std::string_view field) {
  if (!file.Has(Key(field))) return std::nullopt;
  FERMATA_ASSIGN_OR_RETURN(const int64_t id, file.Int(Key(field), 0, kMaxId));
  return static_cast<int32_t>(id);
}

absl::StatusOr<std::vector<std::string>> Texts(const GgufFile& file, std::string_view field) {
  FERMATA_ASSIGN_OR_RETURN(const auto texts, file.Strings(Key(field)));
  return std::vector<std::string>(texts.begin(), texts.end());
}

}  // namespace

absl::StatusOr<TokenizerData> ReadTokenizerData(const GgufFile& file) {
  TokenizerData data{.source = file.source()};
  FERMATA_ASSIGN_OR_RETURN(data.model, file.String(Key("model")));
  FERMATA_ASSIGN_OR_RETURN(data.pre, file.String(Key("pre"), ""));
  FERMATA_ASSIGN_OR_RETURN(data.tokens, Texts(file, "tokens"));
  FERMATA_ASSIGN_OR_RETURN(data.merges, Texts(file, "merges"));
  constexpr double kMaxScore = std::numeric_limits<float>::max();
  FERMATA_ASSIGN_OR_RETURN(const auto scores, file.Numbers(Key("scores"), -kMaxScore, kMaxScore));
  data.scores.assign(scores.begin(), scores.end());
  FERMATA_ASSIGN_OR_RETURN(const auto types, file.Ints(Key("token_type"), 0, kMaxId));
  data.types.assign(types.begin(), types.end());
  FERMATA_ASSIGN_OR_RETURN(data.bos, Id(file, "bos_token_id"));
  FERMATA_ASSIGN_OR_RETURN(data.unknown, Id(file, "unknown_token_id"));
  if (file.Has(Key("add_bos_token"))) {
    FERMATA_ASSIGN_OR_RETURN(data.add_bos, file.Bool(Key("add_bos_token")));
  }
  FERMATA_ASSIGN_OR_RETURN(data.add_space_prefix, file.Bool(Key("add_space_prefix"), true));
  return data;
}

}  // namespace fermata
