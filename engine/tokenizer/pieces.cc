#include "engine/tokenizer/pieces.h"

#include <charconv>
#include <system_error>

namespace fermata {

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  for (;;) {
    const size_t found = text.find(pattern);
    result += text.substr(0, found);
    if (found == text.npos) return result;
    result += content;
    text.remove_prefix(found + pattern.size());
  }
}

std::string SpacesToPieces(std::string_view text) { return ReplaceAll(text, " ", kSpacePiece); }

std::string PiecesToSpaces(std::string_view text) { return ReplaceAll(text, kSpacePiece, " "); }

std::optional<uint8_t> ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return byte;
}

}  // namespace fermata
