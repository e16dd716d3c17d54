#ifndef FERMATA_ENGINE_SCHEDULER_PREFIX_H_
#define FERMATA_ENGINE_SCHEDULER_PREFIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels/form.h"
#include "engine/model/model.h"
#include "engine/session/prefix_cache.h"

namespace fermata {

// Prompts shorter than this are consumed faster than they are worth keeping.
inline constexpr int64_t kMinPrefixTokens = 32;
// Between the states that are kept of a long prompt. Whole chunks, so that a prompt in the chunkwise
// form is cut there anyway.
inline constexpr int64_t kPrefixInterval = 512;

// What one sequence that begins at position 0 has to do with the prefix cache: which state it starts
// from, and which of its own it leaves there: those at multiples of kPrefixInterval, before the
// prompt's last token (so that the same prompt finds it), and at the answer's end. Where prompts are
// computed in chunks only the first kind: a state at another place has other bits than the same
// tokens in whole chunks would give.
class Prefix {
 public:
  // `cache` must outlive it. `prompt` is the whole sequence so far, of at least kMinPrefixTokens.
  Prefix(PrefixCache* cache, std::string scope, std::vector<int32_t> prompt, Form prefill_form);

  // Puts `state`, at position 0, after the longest known beginning of the prompt but for its last
  // token, and returns its tokens.
  int64_t Restore(SequenceState& state) const;

  // Where the prompt must be cut next, once `consumed` of its tokens are.
  int64_t NextCut(int64_t consumed) const;
  // So many of the prompt's tokens have been consumed, by `state`.
  void PromptConsumed(int64_t consumed, const SequenceState& state);

  // A token was sampled.
  void Append(int32_t token) { sequence_.push_back(token); }
  // The sequence has ended; `state` has consumed all but its last token.
  void KeepAnswer(const SequenceState& state);

 private:
  void Keep(int64_t tokens, const SequenceState& state);

  PrefixCache* cache_;
  std::string scope_;
  std::vector<int32_t> sequence_;
  int64_t prompt_tokens_;
  bool any_position_;  // A state's bits are the same wherever its tokens were cut.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_PREFIX_H_
