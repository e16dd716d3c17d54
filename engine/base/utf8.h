#ifndef FERMATA_ENGINE_BASE_UTF8_H_
#define FERMATA_ENGINE_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace fermata {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What text begins with, by Unicode 15, table 3-7 (well-formed UTF-8).
struct Utf8Unit {
  size_t length = 0;   // Bytes of the character, or of the maximal subpart of an ill-formed one.
  bool valid = false;  // A whole character.
  bool open = false;   // The text ends before the character does: more bytes could complete it.
};

// The first unit of `text`, which must not be empty.
Utf8Unit FirstUtf8Unit(std::string_view text);

// The length of the longest beginning of `text` that is UTF-8.
size_t ValidUtf8Length(std::string_view text);

inline bool IsUtf8(std::string_view text) { return ValidUtf8Length(text) == text.size(); }

// Moves what is decided from the front of `bytes` to the end of `text`: whole characters as they
// are, each maximal subpart of an ill-formed one as U+FFFD. What could still become a character (at
// most 3 bytes) stays in `bytes`.
void DrainUtf8(std::string& bytes, std::string& text);

// Appends the character `code_point`, a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& text);

// The code points of `text`, which must be UTF-8.
std::u32string CodePoints(std::string_view text);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_UTF8_H_
