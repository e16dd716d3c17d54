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
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t) const override { return false; }

 private:
  std::vector<int32_t> DoEncode(std::string_view text, bool parse_special,
                                TextPlace place) const override;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BYTE_TOKENIZER_H_
