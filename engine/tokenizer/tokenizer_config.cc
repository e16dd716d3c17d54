#include "engine/tokenizer/tokenizer_config.h"

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/mapped_file.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// The entries of added_tokens_decoder in the form that a tokenizer.json has them.
absl::StatusOr<nlohmann::json> AsList(const JsonNode& decoder, int64_t vocab_size) {
  nlohmann::json list = nlohmann::json::array();
  FERMATA_RETURN_IF_ERROR(decoder.CheckObject());
  for (const auto& [key, value] : decoder.value().items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || !value.is_object()) {
      return decoder.Error("the entry " + Quoted(key) + " is not a token by its id");
    }
    if (id >= vocab_size) {
      return decoder.Error("has the id " + key + ", but the model has " +
                           std::to_string(vocab_size) + " tokens");
    }
    nlohmann::json token = {{"id", id}};
    for (const char* name :
         {"content", "single_word", "lstrip", "rstrip", "normalized", "special"}) {
      if (const auto field = value.find(name); field != value.end()) token[name] = *field;
    }
    list.push_back(std::move(token));
  }
  return list;
}

}  // namespace

absl::StatusOr<TokenizerConfig> TokenizerConfig::Load(const std::string& path, int64_t vocab_size) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return TokenizerConfig();
  FERMATA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Parse(text, path, vocab_size);
}

absl::StatusOr<TokenizerConfig> TokenizerConfig::Parse(std::string_view text,
                                                       const std::string& source,
                                                       int64_t vocab_size) {
  FERMATA_ASSIGN_OR_RETURN(const nlohmann::json value, ParseJson(text, source));
  const JsonNode file(value, source);
  FERMATA_RETURN_IF_ERROR(file.CheckObject());
  TokenizerConfig config;
  if (const JsonNode add = file.Field("add_bos_token"); !add.IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(config.add_bos, add.Bool());
  }
  const JsonNode bos = file.Field("bos_token");
  if (!bos.IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(config.bos,
                             bos.IsString() ? bos.String() : bos.Field("content").String());
  }
  const JsonNode decoder = file.Field("added_tokens_decoder");
  if (!decoder.IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(const nlohmann::json list, AsList(decoder, vocab_size));
    FERMATA_ASSIGN_OR_RETURN(config.added, AddedTokens::Parse(JsonNode(list, decoder.Where())));
  }
  return config;
}

}  // namespace fermata
