#ifndef FERMATA_ENGINE_SAMPLING_SAMPLER_H_
#define FERMATA_ENGINE_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fermata {

// How tokens are chosen and when a turn ends. The defaults are the service's.
struct SamplingParams {
  // In [0, 100]. 0 is greedy: the largest logit, the smallest id among equals; truncation and seed
  // have no effect then.
  double temperature = 1.0;
  // Truncation. Equal logits rank by id, the smaller first.
  int32_t top_k = 0;   // >= 0. Keep the k most likely; 0 keeps all.
  double top_p = 1.0;  // In (0, 1]. Keep the smallest set of most likely tokens whose mass (of what
                       // top_k kept) reaches p; 1 keeps all.
  double min_p = 0.0;  // In [0, 1). Drop tokens less likely than min_p times the most likely.
  // Over the tokens of the last `penalty_window` of the sequence, in this order:
  double repetition_penalty = 1.0;  // In [0.01, 100]. Divides positive logits, multiplies negative
                                    // ones (CTRL, arXiv:1909.05858, section 4.1).
  double presence_penalty = 0.0;    // In [-100, 100]. Subtracted once from a token that occurred.
  double frequency_penalty = 0.0;   // In [-100, 100]. Subtracted once for each occurrence.
  int32_t penalty_window = 256;     // In [0, kMaxPenaltyWindow].
  // Added to logits before all else. At most kMaxLogitBias ids, values in [-100, 100].
  std::unordered_map<int32_t, float> logit_bias = {};
  uint64_t seed = 0;

  int32_t max_new_tokens = 128;  // In [0, kMaxNewTokens]. 0 consumes the prompt and generates
                                 // nothing.
  int32_t min_new_tokens = 0;  // In [0, max_new_tokens]. Until then, stop tokens can not be chosen
                               // nor stop strings match.
  std::vector<int32_t> stop_token_ids = {};  // At most kMaxStopTokens.
  // Stop strings (see StopMatcher): at most kMaxStopStrings, each UTF-8 of 1 to kMaxStopBytes
  // bytes.
  std::vector<std::string> stop = {};

  // -1: no log-probabilities; 0 <= n <= kMaxLogprobs: of the chosen token and of the n most likely.
  int32_t logprobs = -1;
};

inline constexpr int32_t kMaxPenaltyWindow = 4096;
inline constexpr int32_t kMaxLogprobs = 20;
inline constexpr int32_t kMaxNewTokens = 1 << 20;
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 256;
inline constexpr int kMaxStopTokens = 64;
inline constexpr int kMaxLogitBias = 1024;

// OK, or INVALID_ARGUMENT that names the field ("sampling.top_p", "sampling.stop[2]"). Rejects NaN
// everywhere.
absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab_size);

// The last tokens of a sequence, which penalties look at: a part of the session, kept between
// turns.
class SamplerMemory {
 public:
  // Remembers `token` (>= 0), and forgets the oldest beyond kMaxPenaltyWindow.
  void Append(int32_t token);
  // The tokens, oldest first; at most kMaxPenaltyWindow.
  const std::deque<int32_t>& tokens() const { return tokens_; }

  // Little-endian int32s, oldest first.
  std::string Serialize() const;
  // DATA_LOSS when `bytes` is not what Serialize gives.
  static absl::StatusOr<SamplerMemory> Parse(std::string_view bytes);

 private:
  std::deque<int32_t> tokens_;
};

// Natural logarithms of the model's own distribution: softmax of the logits as the model gives
// them, before bias, penalties, temperature and truncation. Computed in float64. Always finite:
// a token without any probability (its logit is -inf or NaN) has kNoLogprob.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

inline constexpr float kNoLogprob = std::numeric_limits<float>::lowest();

struct SampledToken {
  int32_t token = 0;
  float logprob = 0;              // 0 unless asked for.
  std::vector<TokenLogprob> top;  // Most likely first, equals by id. Empty unless asked for.
};

// Chooses a token from `logits` [vocab_size >= 1]. A pure function of its arguments: the random
// number is PhiloxUniform(seed, position, 0), where `position` is the position of the token that is
// chosen, so the choice does not depend on what else the process does. `allow_stop` is false while
// fewer than min_new_tokens have been generated. Order: bias, penalties, stop-token ban,
// temperature, top_k, top_p, min_p. `params` must be valid; tokens of `memory` outside the
// vocabulary have no effect. Thread-safe.
//
// Total: a NaN logit counts as -inf (never chosen) and +inf as the largest float. When no token
// can be chosen, because all logits are -inf or what is not has been banned, the result is the
// smallest id that is not banned, or 0 when all are.
SampledToken Sample(std::span<const float> logits, const SamplingParams& params,
                    const SamplerMemory& memory, int64_t position, bool allow_stop);

// log softmax(logits)[token], and the `top` most likely (all, when `top` exceeds the vocabulary).
SampledToken ScoreToken(std::span<const float> logits, int32_t token, int32_t top);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SAMPLING_SAMPLER_H_
