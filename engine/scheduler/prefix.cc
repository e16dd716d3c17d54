#include "engine/scheduler/prefix.h"

#include <algorithm>
#include <span>
#include <utility>

namespace fermata {

static_assert(kPrefixInterval % kChunkTokens == 0);

Prefix::Prefix(PrefixCache* cache, std::string scope, std::vector<int32_t> prompt,
               Form prefill_form)
    : cache_(cache),
      scope_(std::move(scope)),
      sequence_(std::move(prompt)),
      prompt_tokens_(static_cast<int64_t>(sequence_.size())),
      any_position_(prefill_form == Form::kRecurrent) {}

int64_t Prefix::Restore(SequenceState& state) const {
  const int64_t known = cache_->Find(scope_, std::span(sequence_).first(prompt_tokens_ - 1),
                                     std::as_writable_bytes(state.fixed.span()));
  state.position = known;
  return known;
}

int64_t Prefix::NextCut(int64_t consumed) const {
  const int64_t interval = (consumed / kPrefixInterval + 1) * kPrefixInterval;
  const int64_t last = any_position_ ? prompt_tokens_ - 1 : prompt_tokens_;
  return std::min(interval, consumed < last ? last : prompt_tokens_);
}

void Prefix::PromptConsumed(int64_t consumed, const SequenceState& state) {
  if (consumed % kPrefixInterval == 0 || (any_position_ && consumed == prompt_tokens_ - 1)) {
    Keep(consumed, state);
  }
}

void Prefix::KeepAnswer(const SequenceState& state) {
  if (any_position_) Keep(static_cast<int64_t>(sequence_.size()) - 1, state);
}

void Prefix::Keep(int64_t tokens, const SequenceState& state) {
  cache_->Put(scope_, std::span(sequence_).first(tokens), std::as_bytes(state.fixed.span()));
}

}  // namespace fermata
