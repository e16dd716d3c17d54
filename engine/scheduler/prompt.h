#ifndef FERMATA_ENGINE_SCHEDULER_PROMPT_H_
#define FERMATA_ENGINE_SCHEDULER_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Text or token ids; neither is an empty prompt.
struct Prompt {
  std::string text;
  std::vector<int32_t> token_ids;  // Used when `text` is empty.
  bool parse_special = false;      // Whether text that spells a special token becomes that token.

  bool empty() const { return text.empty() && token_ids.empty(); }
};

// The prompt's token ids. A text at a sequence's start has before it what the tokenizer's authors
// put there (a BOS, or nothing); ids stand as they are.
std::vector<int32_t> EncodePrompt(const Tokenizer& tokenizer, const Prompt& prompt,
                                  TextPlace place);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_PROMPT_H_
