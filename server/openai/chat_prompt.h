#ifndef FERMATA_SERVER_OPENAI_CHAT_PROMPT_H_
#define FERMATA_SERVER_OPENAI_CHAT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace fermata {

// Builds the token ids of a conversation out of a template's marks and of texts. A mark that is a
// special token of the tokenizer becomes that token; texts never do, so what somebody says can not
// spell a special token. Texts that follow one another are tokenized as one, but across a cut: what is
// generated is tokenized on its own, and so must it be when it comes back.
class ChatPromptBuilder {
 public:
  // Of a new sequence.
  explicit ChatPromptBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Of one that goes on: it ends with `tail`, some of its last tokens.
  ChatPromptBuilder(const Tokenizer& tokenizer, std::vector<int32_t> tail);

  // What a sequence begins with: what the tokenizer says, or else `mark`.
  void Begin(std::string_view mark);
  void Mark(std::string_view mark);
  void Text(std::string_view text);
  void Token(int32_t id);
  void Cut();
  // The next text stands as the first of a sequence does.
  void Restart() { place_ = TextPlace::kStart; }

  // As the three above, for what comes first in a sequence that goes on: as far as the sequence ends
  // with it already, it is left out.
  void CloseWithMark(std::string_view mark);
  void CloseWithText(std::string_view text);
  void CloseWithToken(int32_t id);

  // The id of a mark that is a special token.
  std::optional<int32_t> IdOf(std::string_view mark) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

  std::vector<int32_t> Take();

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> tail_;
  TextPlace place_ = TextPlace::kStart;
  std::string text_;  // Not tokenized yet.
  std::vector<int32_t> ids_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_PROMPT_H_
