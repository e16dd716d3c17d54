#ifndef FERMATA_ENGINE_TOKENIZER_PIECES_H_
#define FERMATA_ENGINE_TOKENIZER_PIECES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fermata {

// How SentencePiece spells its pieces.

// U+2581 stands for the space.
inline constexpr std::string_view kSpacePiece = "\xE2\x96\x81";

// `text` with its spaces as U+2581, or the reverse.
std::string SpacesToPieces(std::string_view text);
std::string PiecesToSpaces(std::string_view text);

// The byte that a piece stands for that is spelled <0x00> to <0xFF>.
std::optional<uint8_t> ByteOfPiece(std::string_view piece);

// `text` with all that is `pattern`, which must not be empty, replaced.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content);

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_PIECES_H_
