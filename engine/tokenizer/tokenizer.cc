#include "engine/tokenizer/tokenizer.h"

#include <string>

#include "engine/base/utf8.h"

namespace fermata {
std::string Tokenizer::Decode(const std::vector<int32_t>& ids, bool keep_special,
                              TextPlace place) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (keep_special || !IsSpecial(id)) bytes += TokenBytes(id);
  }
  if (place == TextPlace::kStart && StripsSpaceAtStart() && bytes.starts_with(' ')) {
    bytes.erase(0, 1);
  }
  std::string text;
  DrainUtf8(bytes, text);
  if (!bytes.empty()) text += kReplacementCharacter;
  return text;
}

std::string IncrementalDecoder::Append(int32_t id) {
  if (tokenizer_->IsSpecial(id)) return {};
  std::string_view bytes = tokenizer_->TokenBytes(id);
  if (strip_space_ && !bytes.empty()) {
    if (bytes[0] == ' ') bytes.remove_prefix(1);
    strip_space_ = false;
  }
  held_ += bytes;
  std::string text;
  DrainUtf8(held_, text);
  return text;
}

std::string IncrementalDecoder::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace fermata
