#include "engine/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "engine/base/utf8.h"

namespace fermata {
namespace {

constexpr int kAlphabetEnd = 0x100 + 68;

// Byte by code point, -1 where the code point is not of the alphabet.
constexpr std::array<int16_t, kAlphabetEnd> kByteOf = [] {
  std::array<int16_t, kAlphabetEnd> byte_of{};
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    if (!printable) byte_of[byte] = -1;
    byte_of[printable ? byte : next++] = static_cast<int16_t>(byte);
  }
  return byte_of;
}();

}  // namespace

std::optional<std::string> BytesOfToken(std::string_view token) {
  std::string bytes;
  for (const char32_t code_point : CodePoints(token)) {
    if (code_point >= kAlphabetEnd || kByteOf[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[code_point]));
  }
  return bytes;
}

}  // namespace fermata
