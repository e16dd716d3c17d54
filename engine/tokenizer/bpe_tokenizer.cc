#include "engine/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/base/utf8.h"

namespace fermata {

BpeTokenizer::BpeTokenizer(Parts parts)
    : kind_(std::move(parts.kind)),
      normalizer_(std::move(parts.normalizer)),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      model_(std::move(parts.model)),
      strips_space_at_start_(parts.strips_space_at_start) {
  size_t size = parts.tokens.size();
  for (const AddedToken& token : parts.added) {
    size = std::max(size, static_cast<size_t>(token.id) + 1);
  }
  token_bytes_.resize(size);
  special_.resize(size);
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens[id].empty()) token_bytes_[id] = model_->BytesOf(parts.tokens[id]);
  }
  for (const AddedToken& token : parts.added) {
    token_bytes_[token.id] = token.content;
    special_[token.id] = token.special;
  }
  added_ = AddedTokens(std::move(parts.added), normalizer_);
  set_start_ids(std::move(parts.start_ids));
}

std::vector<int32_t> BpeTokenizer::DoEncode(std::string_view text, bool parse_special,
                                            TextPlace place) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  StretchPlace stretch{.text = place, .first = true};
  added_.Split(text, /*normalized=*/false, parse_special,
               [&](std::string_view piece, const AddedToken* token) {
                 if (token != nullptr) {
                   ids.push_back(token->id);
                 } else {
                   EncodeBytes(piece, stretch, parse_special, ids);
                 }
                 stretch = {.text = TextPlace::kStart, .first = false};
               });
  return ids;
}

void BpeTokenizer::EncodeBytes(std::string_view text, StretchPlace place, bool parse_special,
                               std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Length(text);
    EncodeUtf8(text.substr(0, valid), place, parse_special, ids);
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Unit unit = FirstUtf8Unit(text.substr(invalid));
      if (unit.valid) break;
      invalid += unit.length;
    }
    if (invalid > 0) model_->EncodeInvalid(text.substr(0, invalid), ids);
    text.remove_prefix(invalid);
    place = {.text = TextPlace::kContinuation, .first = false};
  }
}

void BpeTokenizer::EncodeUtf8(std::string_view text, StretchPlace place, bool parse_special,
                              std::vector<int32_t>& ids) const {
  std::string normalized;
  if (!normalizer_.empty()) {
    normalized = normalizer_.Normalize(text, place.text);
    text = normalized;
  }
  added_.Split(text, /*normalized=*/true, parse_special,
               [&](std::string_view piece, const AddedToken* token) {
                 if (token != nullptr) {
                   ids.push_back(token->id);
                 } else {
                   pre_tokenizer_.Split(piece, place,
                                        [&](std::string_view word) { model_->Encode(word, ids); });
                 }
                 place = {.text = TextPlace::kStart, .first = false};
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
