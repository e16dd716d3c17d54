#include "engine/tokenizer/byte_tokenizer.h"

#include <array>

namespace fermata {
namespace {

constexpr std::array<char, 256> kBytes = [] {
  std::array<char, 256> bytes{};
  for (int i = 0; i < 256; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}();

}  // namespace

std::vector<int32_t> ByteTokenizer::DoEncode(std::string_view text, bool, TextPlace) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

std::string_view ByteTokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id > 255) return {};
  return {&kBytes[id], 1};
}

}  // namespace fermata
