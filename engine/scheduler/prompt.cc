#include "engine/scheduler/prompt.h"

namespace fermata {

std::vector<int32_t> EncodePrompt(const Tokenizer& tokenizer, const Prompt& prompt,
                                  TextPlace place) {
  if (prompt.text.empty()) return prompt.token_ids;
  std::vector<int32_t> ids;
  if (place == TextPlace::kStart) ids = tokenizer.start_ids();
  const std::vector<int32_t> text = tokenizer.Encode(prompt.text, prompt.parse_special, place);
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

}  // namespace fermata
