#include "server/openai/chat_prompt.h"

#include <algorithm>
#include <utility>

namespace fermata {

ChatPromptBuilder::ChatPromptBuilder(const Tokenizer& tokenizer, std::vector<int32_t> tail)
    : tokenizer_(tokenizer), tail_(std::move(tail)), place_(TextPlace::kContinuation) {}

std::optional<int32_t> ChatPromptBuilder::IdOf(std::string_view mark) const {
  const std::vector<int32_t> ids = tokenizer_.Encode(mark, true, TextPlace::kContinuation);
  if (ids.size() == 1 && tokenizer_.IsSpecial(ids[0])) return ids[0];
  return std::nullopt;
}

void ChatPromptBuilder::Begin(std::string_view mark) {
  Cut();
  const std::vector<int32_t>& start = tokenizer_.start_ids();
  if (!start.empty()) {
    ids_.insert(ids_.end(), start.begin(), start.end());
  } else if (const auto id = IdOf(mark); id.has_value()) {
    ids_.push_back(*id);
  }
  Restart();
}

void ChatPromptBuilder::Mark(std::string_view mark) {
  if (const auto id = IdOf(mark); id.has_value()) {
    Token(*id);
  } else {
    Text(mark);
  }
}

void ChatPromptBuilder::Text(std::string_view text) { text_ += text; }

void ChatPromptBuilder::Token(int32_t id) {
  Cut();
  ids_.push_back(id);
}

void ChatPromptBuilder::Cut() {
  if (text_.empty()) return;
  const std::vector<int32_t> ids = tokenizer_.Encode(text_, false, place_);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  text_.clear();
  place_ = TextPlace::kContinuation;
}

void ChatPromptBuilder::CloseWithMark(std::string_view mark) {
  if (const auto id = IdOf(mark); id.has_value()) {
    CloseWithToken(*id);
  } else {
    CloseWithText(mark);
  }
}

void ChatPromptBuilder::CloseWithToken(int32_t id) {
  if (tail_.empty() || tail_.back() != id) Token(id);
}

void ChatPromptBuilder::CloseWithText(std::string_view text) {
  const std::string tail = tokenizer_.Decode(tail_, false, TextPlace::kContinuation);
  size_t there = std::min(text.size(), tail.size());
  while (!tail.ends_with(text.substr(0, there))) --there;
  Text(text.substr(there));
}

std::vector<int32_t> ChatPromptBuilder::Take() {
  Cut();
  return std::move(ids_);
}

}  // namespace fermata
