#include "engine/base/utf8.h"

#include <cstdint>

namespace fermata {
namespace {

// A row of table 3-7: how many bytes follow a lead byte, and the range of the first that follows.
// All later ones are in 80..BF.
struct Lead {
  int following;  // -1: not a lead byte.
  uint8_t low;
  uint8_t high;
};

Lead Classify(uint8_t byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte < 0xC2) return {-1, 0, 0};
  if (byte < 0xE0) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte < 0xF4) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {-1, 0, 0};
}

}  // namespace

Utf8Unit FirstUtf8Unit(std::string_view text) {
  const Lead lead = Classify(static_cast<uint8_t>(text[0]));
  if (lead.following < 0) return {.length = 1, .valid = false, .open = false};
  uint8_t low = lead.low;
  uint8_t high = lead.high;
  for (int i = 1; i <= lead.following; ++i) {
    const auto length = static_cast<size_t>(i);
    if (length == text.size()) return {.length = length, .valid = false, .open = true};
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < low || byte > high) return {.length = length, .valid = false, .open = false};
    low = 0x80;
    high = 0xBF;
  }
  return {.length = static_cast<size_t>(lead.following) + 1, .valid = true, .open = false};
}

size_t ValidUtf8Length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Unit unit = FirstUtf8Unit(text.substr(at));
    if (!unit.valid) break;
    at += unit.length;
  }
  return at;
}

void DrainUtf8(std::string& bytes, std::string& text) {
  const std::string_view view = bytes;
  size_t at = 0;
  while (at < view.size()) {
    const Utf8Unit unit = FirstUtf8Unit(view.substr(at));
    if (unit.open) break;
    text += unit.valid ? view.substr(at, unit.length) : kReplacementCharacter;
    at += unit.length;
  }
  bytes.erase(0, at);
}

void AppendUtf8(char32_t code_point, std::string& text) {
  const auto byte = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  const auto continuation = [&](int shift) { byte(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0 | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    byte(0xE0 | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    byte(0xF0 | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::u32string CodePoints(std::string_view text) {
  std::u32string code_points;
  for (size_t at = 0; at < text.size();) {
    const size_t length = FirstUtf8Unit(text.substr(at)).length;
    const auto first = static_cast<uint8_t>(text[at]);
    char32_t code_point = length == 1 ? first : first & (0x7F >> length);
    for (size_t i = 1; i < length; ++i) {
      code_point = (code_point << 6) | (static_cast<uint8_t>(text[at + i]) & 0x3F);
    }
    code_points.push_back(code_point);
    at += length;
  }
  return code_points;
}

}  // namespace fermata
