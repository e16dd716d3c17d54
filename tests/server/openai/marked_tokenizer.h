#ifndef FERMATA_TESTS_SERVER_OPENAI_MARKED_TOKENIZER_H_
#define FERMATA_TESTS_SERVER_OPENAI_MARKED_TOKENIZER_H_

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_data.h"
#include "gtest/gtest.h"

namespace fermata {

// A tokenizer of bytes, b being the token b + 1, and of special tokens that `marks` spell: the tokens
// 257 and on. The token 0 is the special token "<s>", which begins sequences when `begins` is set.
inline std::unique_ptr<Tokenizer> MarkedTokenizer(const std::vector<std::string>& marks,
                                                  bool begins = false) {
  TokenizerData data{.source = "test"};
  data.model = "rwkv";
  data.tokens.push_back("<s>");
  data.types.push_back(kControlToken);
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof(token), "\\x%02x", byte);
    data.tokens.push_back(token);
    data.types.push_back(kNormalToken);
  }
  for (const std::string& mark : marks) {
    data.tokens.push_back(mark);
    data.types.push_back(kControlToken);
  }
  data.bos = 0;
  data.add_bos = begins;
  auto tokenizer = Tokenizer::FromData(data, static_cast<int64_t>(data.tokens.size()));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace fermata

#endif  // FERMATA_TESTS_SERVER_OPENAI_MARKED_TOKENIZER_H_
