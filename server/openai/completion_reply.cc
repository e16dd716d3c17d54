#include "server/openai/completion_reply.h"

namespace fermata {

using nlohmann::ordered_json;

ordered_json CompletionReply::WholeChoice(const ReplyPiece& piece) const {
  ordered_json choice = {{"text", piece.text},
                         {"index", piece.index},
                         {"logprobs", Logprobs(piece)},
                         {"finish_reason", FinishReasonJson(piece.finish)}};
  AddFinishDetail(piece, choice);
  return choice;
}

// Four lists, of which each has one element a token.
ordered_json CompletionReply::Logprobs(const ReplyPiece& piece) const {
  if (!with_logprobs()) return nullptr;
  ordered_json tokens = ordered_json::array();
  ordered_json token_logprobs = ordered_json::array();
  ordered_json top_logprobs = ordered_json::array();
  ordered_json offsets = ordered_json::array();
  int64_t offset = piece.text_offset;
  for (const ScoredToken& token : piece.tokens) {
    const std::string text = TokenText(tokenizer(), token.id);
    tokens.push_back(text);
    offsets.push_back(offset);
    offset += TokenCharacters(tokenizer(), token.id);
    if (!token.logprob.has_value()) {
      token_logprobs.push_back(nullptr);
      top_logprobs.push_back(nullptr);
      continue;
    }
    token_logprobs.push_back(*token.logprob);
    ordered_json top = ordered_json::object();
    for (const auto& [id, logprob] : token.top) top.emplace(TokenText(tokenizer(), id), logprob);
    // The chosen one is always told, so there may be one more than asked for.
    top.emplace(text, *token.logprob);
    top_logprobs.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(token_logprobs)},
          {"top_logprobs", std::move(top_logprobs)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace fermata
