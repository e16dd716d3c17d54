#ifndef FERMATA_ENGINE_TOKENIZER_BYTE_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_BYTE_TOKENIZER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// One token a byte, whose id is the byte. No special tokens.
class ByteTokenizer : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }
  std::vector<int32_t> Encode(std::string_view text, bool parse_special) const override;
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t) const override { return false; }
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BYTE_TOKENIZER_H_
