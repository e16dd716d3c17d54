#include "engine/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/json_node.h"

namespace fermata {
namespace {

// Checks a part of which only the kind matters here: one of `kinds`, or a Sequence of them in
// `list`.
absl::Status CheckKind(const JsonNode& node, std::string_view list,
                       std::initializer_list<std::string_view> kinds) {
  FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type != "Sequence") {
    if (std::find(kinds.begin(), kinds.end(), type) != kinds.end()) return absl::OkStatus();
    return node.Error(Quoted(type) + " is not supported");
  }
  FERMATA_ASSIGN_OR_RETURN(const auto elements, node.Field(list).Elements());
  if (elements.empty()) return node.Field(list).Error("is empty");
  for (const JsonNode& element : elements) {
    FERMATA_RETURN_IF_ERROR(CheckKind(element, list, kinds));
  }
  return absl::OkStatus();
}

absl::Status CheckFile(const JsonNode& file) {
  FERMATA_RETURN_IF_ERROR(
      file.OnlyFields({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"}));
  for (const char* name : {"truncation", "padding"}) {
    if (!file.Field(name).IsNull()) return file.Field(name).Error("must be null");
  }
  const JsonNode post_processor = file.Field("post_processor");
  if (!post_processor.IsNull()) {
    FERMATA_RETURN_IF_ERROR(
        CheckKind(post_processor, "processors", {"ByteLevel", "TemplateProcessing"}));
  }
  return CheckKind(file.Field("decoder"), "decoders", {"ByteLevel"});
}

// An added token may stand in the vocabulary too, but then under the same id.
absl::Status CheckIds(const JsonNode& node, const AddedTokens& added, const Bpe& bpe) {
  absl::flat_hash_map<int32_t, const AddedToken*> by_id;
  for (const AddedToken& token : added.tokens()) {
    by_id.emplace(token.id, &token);
    const auto found = bpe.vocab().find(token.content);
    if (found != bpe.vocab().end() && found->second != token.id) {
      return node.Error(Quoted(token.content) + " has another id in model.vocab");
    }
  }
  for (const auto& [token, id] : bpe.vocab()) {
    const auto found = by_id.find(id);
    if (found != by_id.end() && found->second->content != token) {
      return node.Error("the id " + std::to_string(id) + " is another token's in model.vocab");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Parse(std::string_view json,
                                                               std::string source) {
  FERMATA_ASSIGN_OR_RETURN(const nlohmann::json value, ParseJson(json, source));
  const JsonNode file(value, std::move(source));
  FERMATA_RETURN_IF_ERROR(CheckFile(file));
  FERMATA_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Parse(file.Field("normalizer")));
  const JsonNode added_tokens = file.Field("added_tokens");
  FERMATA_ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Parse(added_tokens, normalizer));
  FERMATA_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                           PreTokenizer::Parse(file.Field("pre_tokenizer")));
  absl::flat_hash_map<std::string, int32_t> special;
  for (const AddedToken& token : added.tokens()) {
    if (token.special) special.emplace(token.content, token.id);
  }
  FERMATA_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Parse(file.Field("model"), special));
  FERMATA_RETURN_IF_ERROR(CheckIds(added_tokens, added, bpe));
  return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(normalizer), std::move(added),
                                                     std::move(pre_tokenizer), std::move(bpe)));
}

BpeTokenizer::BpeTokenizer(Normalizer normalizer, AddedTokens added, PreTokenizer pre_tokenizer,
                           Bpe bpe)
    : normalizer_(std::move(normalizer)),
      added_(std::move(added)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      bpe_(std::move(bpe)) {
  int32_t last = 255;
  for (const auto& [token, id] : bpe_.vocab()) last = std::max(last, id);
  for (const AddedToken& token : added_.tokens()) last = std::max(last, token.id);
  token_bytes_.resize(static_cast<size_t>(last) + 1);
  special_.resize(token_bytes_.size());
  for (const auto& [token, id] : bpe_.vocab())
    token_bytes_[id] = BytesOfToken(token).value_or(token);
  for (const AddedToken& token : added_.tokens()) {
    token_bytes_[token.id] = token.content;
    special_[token.id] = token.special;
  }
}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text, bool parse_special) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  added_.Split(text, /*normalized=*/false, parse_special,
               [&](std::string_view piece, const AddedToken* token) {
                 if (token != nullptr) {
                   ids.push_back(token->id);
                 } else {
                   EncodeBytes(piece, parse_special, ids);
                 }
               });
  return ids;
}

void BpeTokenizer::EncodeBytes(std::string_view text, bool parse_special,
                               std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Length(text);
    EncodeUtf8(text.substr(0, valid), parse_special, ids);
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Unit unit = FirstUtf8Unit(text.substr(invalid));
      if (unit.valid) break;
      invalid += unit.length;
    }
    if (invalid > 0) bpe_.Encode(bpe_.Encodable(text.substr(0, invalid)), ids);
    text.remove_prefix(invalid);
  }
}

void BpeTokenizer::EncodeUtf8(std::string_view text, bool parse_special,
                              std::vector<int32_t>& ids) const {
  std::string normalized;
  if (!normalizer_.empty()) {
    normalized = normalizer_.Normalize(text);
    text = normalized;
  }
  added_.Split(text, /*normalized=*/true, parse_special,
               [&](std::string_view piece, const AddedToken* token) {
                 if (token != nullptr) {
                   ids.push_back(token->id);
                   return;
                 }
                 pre_tokenizer_.Split(piece,
                                      [&](std::string_view word) { bpe_.Encode(word, ids); });
               });
}

std::string_view BpeTokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return token_bytes_[id];
}

bool BpeTokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && special_[id];
}

}  // namespace fermata
