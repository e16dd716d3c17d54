#include "server/openai/chat_reply.h"

#include <utility>

namespace fermata {
namespace {

using nlohmann::ordered_json;

ordered_json TokenJson(const Tokenizer& tokenizer, int32_t id, float logprob) {
  ordered_json bytes = ordered_json::array();
  for (const char c : tokenizer.TokenBytes(id)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", TokenText(tokenizer, id)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

ordered_json Logprobs(const Tokenizer& tokenizer, const ReplyPiece& piece) {
  ordered_json content = ordered_json::array();
  for (const ScoredToken& token : piece.tokens) {
    ordered_json entry = TokenJson(tokenizer, token.id, token.logprob.value_or(0));
    ordered_json top = ordered_json::array();
    for (const auto& [id, logprob] : token.top) top.push_back(TokenJson(tokenizer, id, logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace

ordered_json ChatReply::WholeChoice(const ReplyPiece& piece) const {
  return Choice(piece, "message",
                {{"role", "assistant"}, {"content", piece.text}, {"refusal", nullptr}});
}

ordered_json ChatReply::ChunkChoice(const ReplyPiece& piece) const {
  ordered_json delta = ordered_json::object();
  if (piece.first) {
    delta = {{"role", "assistant"}, {"content", piece.text}, {"refusal", nullptr}};
  } else if (!piece.text.empty() || !piece.tokens.empty()) {
    delta["content"] = piece.text;
  }
  return Choice(piece, "delta", std::move(delta));
}

ordered_json ChatReply::Choice(const ReplyPiece& piece, const char* part,
                               ordered_json message) const {
  const bool tells =
      with_logprobs() && (!piece.tokens.empty() || std::string_view(part) != "delta");
  ordered_json choice = {{"index", piece.index},
                         {part, std::move(message)},
                         {"logprobs", tells ? Logprobs(tokenizer(), piece) : ordered_json()},
                         {"finish_reason", FinishReasonJson(piece.finish)}};
  AddFinishDetail(piece, choice);
  return choice;
}

}  // namespace fermata
