#include "engine/tokenizer/python_literal.h"

#include <charconv>
#include <cstdint>
#include <system_error>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"

namespace fermata {
namespace {

// What a \ and one letter stand for, or 0.
char SimpleEscape(char letter) {
  switch (letter) {
    case '\\':
    case '\'':
    case '"':
      return letter;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

// How many hexadecimal digits follow a \ and this letter, or 0.
size_t HexDigits(char letter, bool is_string) {
  if (letter == 'x') return 2;
  if (is_string && letter == 'u') return 4;
  if (is_string && letter == 'U') return 8;
  return 0;
}

absl::Status Broken(std::string_view escape) {
  return absl::InvalidArgumentError("has the escape " + Quoted(escape) + ", which is not known");
}

// Appends what the escape at the front of `body` stands for; returns its length.
absl::StatusOr<size_t> Escape(std::string_view body, bool is_string, std::string& bytes) {
  if (body.size() < 2) return Broken(body);
  if (const char simple = SimpleEscape(body[1]); simple != 0) {
    bytes.push_back(simple);
    return 2;
  }
  const size_t digits = HexDigits(body[1], is_string);
  if (digits == 0 || body.size() < 2 + digits) return Broken(body.substr(0, 2));
  const std::string_view hex = body.substr(2, digits);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + digits, value, 16);
  if (error != std::errc() || end != hex.data() + digits) return Broken(body.substr(0, 2 + digits));
  if (!is_string) {
    bytes.push_back(static_cast<char>(value));
  } else {
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return Broken(body.substr(0, 2 + digits));
    }
    AppendUtf8(value, bytes);
  }
  return 2 + digits;
}

}  // namespace

absl::StatusOr<std::string> UnescapePython(std::string_view body, bool is_string) {
  if (!IsUtf8(body)) return absl::InvalidArgumentError("is not UTF-8");
  std::string bytes;
  for (size_t at = 0; at < body.size();) {
    if (body[at] == '\\') {
      FERMATA_ASSIGN_OR_RETURN(const size_t length, Escape(body.substr(at), is_string, bytes));
      at += length;
      continue;
    }
    if (!is_string && (body[at] & 0x80) != 0) {
      return absl::InvalidArgumentError("has a character that is not ASCII in a bytes literal");
    }
    bytes.push_back(body[at++]);
  }
  return bytes;
}

absl::StatusOr<std::string> ParsePythonLiteral(std::string_view literal) {
  const bool is_string = !literal.starts_with('b');
  const std::string_view quoted = literal.substr(is_string ? 0 : 1);
  const char quote = quoted.empty() ? '\0' : quoted[0];
  if (quoted.size() < 2 || (quote != '\'' && quote != '"') || quoted.back() != quote) {
    return absl::InvalidArgumentError(Quoted(literal) + " is not a string or bytes literal");
  }
  const std::string_view body = quoted.substr(1, quoted.size() - 2);
  // The closing quote must be the first that no \ stands before.
  for (size_t at = 0; at < body.size(); ++at) {
    if (body[at] == '\\') {
      ++at;
      if (at < body.size()) continue;
    } else if (body[at] != quote) {
      continue;
    }
    return absl::InvalidArgumentError(Quoted(literal) + " is not one string or bytes literal");
  }
  return UnescapePython(body, is_string);
}

}  // namespace fermata
