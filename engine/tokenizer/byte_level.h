#ifndef FERMATA_ENGINE_TOKENIZER_BYTE_LEVEL_H_
#define FERMATA_ENGINE_TOKENIZER_BYTE_LEVEL_H_

#include <optional>
#include <string>
#include <string_view>

namespace fermata {

// The alphabet in which byte-level BPE files spell bytes (GPT-2's bytes_to_unicode): printable
// Latin-1 characters stand for themselves, the other 68 bytes, in order, for U+0100 and on. The
// space is U+0120.
//
// The bytes that `token` (UTF-8) spells, or nullopt when a character is not of the alphabet.
std::optional<std::string> BytesOfToken(std::string_view token);

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BYTE_LEVEL_H_
