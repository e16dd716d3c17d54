#ifndef FERMATA_ENGINE_TOKENIZER_TOKENIZER_DATA_H_
#define FERMATA_ENGINE_TOKENIZER_TOKENIZER_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/added_tokens.h"

namespace fermata {

// What a token is, in the numbers of GGUF's tokenizer.ggml.token_type and of SentencePiece.
enum TokenType : int32_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 3,      // Special: no text but its own spelling, when that is parsed, becomes it.
  kUserDefinedToken = 4,  // Cut out of the text before anything else.
  kUnusedToken = 5,
  kByteToken = 6,
};

// A tokenizer as plain data: the fields of a GGUF file under tokenizer.ggml, of which those that are
// absent are left as they are here. A SentencePiece model reads into the same.
struct TokenizerData {
  std::string source;  // Names the file in errors.

  std::string model;  // "rwkv", "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE).
  // Of "gpt2": which regular expression cuts the text. Must be there.
  std::string pre;

  // By id. Those of "rwkv" have \ escapes, those of "gpt2" are spelled in the byte-level alphabet,
  // those of "llama" have U+2581 for the space.
  std::vector<std::string> tokens;
  std::vector<float> scores;        // Of "llama": as many as tokens.
  std::vector<int32_t> types;       // TokenType: as many as tokens, or none, when all are normal.
  std::vector<std::string> merges;  // Of "gpt2": "a b", by rank.

  // Tokens beside those above, or with other flags than theirs.
  std::vector<AddedToken> added;

  std::optional<int32_t> bos;
  std::optional<int32_t> unknown;
  std::optional<bool> add_bos;  // Absent: true for "llama" and Llama 3, else false.
  // Of "llama": a space before the first text of a sequence.
  bool add_space_prefix = true;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_TOKENIZER_DATA_H_
