#include "server/openai/reply.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/utf8.h"

namespace fermata {

using nlohmann::ordered_json;

void ReplyPiece::Append(ReplyPiece next) {
  text += next.text;
  tokens.insert(tokens.end(), std::make_move_iterator(next.tokens.begin()),
                std::make_move_iterator(next.tokens.end()));
  if (next.finish.has_value()) finish = next.finish;
}

ordered_json ReplyShape::Envelope(const char* object) const {
  const ReplyHead& head = options_.head;
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint},
          {"choices", ordered_json::array()}};
}

ordered_json FinishReasonJson(const std::optional<v1::FinishReason>& reason) {
  if (!reason.has_value()) return nullptr;
  const bool stopped = *reason == v1::STOP || *reason == v1::STOP_TOKEN;
  return stopped ? "stop" : "length";
}

void AddFinishDetail(const ReplyPiece& piece, ordered_json& choice) {
  if (!piece.finish.has_value()) return;
  switch (*piece.finish) {
    case v1::CANCELLED:
    case v1::TIME_LIMIT:
    case v1::DRAINED:
      choice["finish_detail"] = absl::AsciiStrToLower(v1::FinishReason_Name(*piece.finish));
      return;
    default:
      return;
  }
}

ordered_json UsageJson(const ReplyUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

ordered_json SessionJson(const v1::SessionAfter& session) {
  return {{"id", session.id()},
          {"position", session.position()},
          {"state_bytes", session.state_bytes()},
          {"kv_equivalent_bytes", session.kv_equivalent_bytes()}};
}

std::string TokenText(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  if (IsUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char c : bytes) {
    absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(c));
  }
  return text;
}

int64_t TokenCharacters(const Tokenizer& tokenizer, int32_t id) {
  if (tokenizer.IsSpecial(id)) return 0;
  return CountCharacters(tokenizer.TokenBytes(id));
}

int64_t CountCharacters(std::string_view text) {
  // All but the bytes that go on with a character.
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace fermata
