#include <cmath>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/sampling/sampler.h"

namespace fermata {
namespace {

// `value` in [low, high]; false for NaN.
absl::Status CheckRange(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  const auto text = [](double bound) {
    std::string digits = std::to_string(bound);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
  };
  return InvalidField(field, "must be in [" + text(low) + ", " + text(high) + "]");
}

absl::Status CheckTokens(const SamplingParams& params, int64_t vocab_size) {
  if (params.stop_token_ids.size() > kMaxStopTokens) {
    return InvalidField("sampling.stop_token_ids",
                        "has more than " + std::to_string(kMaxStopTokens) + " ids");
  }
  const std::string range = "is not in the vocabulary of " + std::to_string(vocab_size) + " tokens";
  for (size_t i = 0; i < params.stop_token_ids.size(); ++i) {
    const int32_t id = params.stop_token_ids[i];
    if (id < 0 || id >= vocab_size) {
      return InvalidField("sampling.stop_token_ids[" + std::to_string(i) + "]",
                          std::to_string(id) + " " + range);
    }
  }
  if (params.logit_bias.size() > kMaxLogitBias) {
    return InvalidField("sampling.logit_bias",
                        "has more than " + std::to_string(kMaxLogitBias) + " ids");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    const std::string field = "sampling.logit_bias[" + std::to_string(id) + "]";
    if (id < 0 || id >= vocab_size) return InvalidField(field, range);
    FERMATA_RETURN_IF_ERROR(CheckRange(field, bias, -100, 100));
  }
  return absl::OkStatus();
}

absl::Status CheckStopStrings(const SamplingParams& params) {
  if (params.stop.size() > kMaxStopStrings) {
    return InvalidField("sampling.stop",
                        "has more than " + std::to_string(kMaxStopStrings) + " strings");
  }
  for (size_t i = 0; i < params.stop.size(); ++i) {
    const std::string field = "sampling.stop[" + std::to_string(i) + "]";
    if (params.stop[i].empty()) return InvalidField(field, "is empty");
    if (params.stop[i].size() > kMaxStopBytes) {
      return InvalidField(field, "is longer than " + std::to_string(kMaxStopBytes) + " bytes");
    }
    if (!IsUtf8(params.stop[i])) return InvalidField(field, "is not UTF-8");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab_size) {
  FERMATA_RETURN_IF_ERROR(CheckRange("sampling.temperature", params.temperature, 0, 100));
  if (params.top_k < 0) return InvalidField("sampling.top_k", "must not be negative");
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return InvalidField("sampling.top_p", "must be in (0, 1]");
  }
  if (!(params.min_p >= 0 && params.min_p < 1)) {
    return InvalidField("sampling.min_p", "must be in [0, 1)");
  }
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.repetition_penalty", params.repetition_penalty, 0.01, 100));
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.presence_penalty", params.presence_penalty, -100, 100));
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.frequency_penalty", params.frequency_penalty, -100, 100));
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.penalty_window", params.penalty_window, 0, kMaxPenaltyWindow));
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.max_new_tokens", params.max_new_tokens, 0, kMaxNewTokens));
  FERMATA_RETURN_IF_ERROR(
      CheckRange("sampling.min_new_tokens", params.min_new_tokens, 0, kMaxNewTokens));
  if (params.min_new_tokens > params.max_new_tokens) {
    return InvalidField("sampling.min_new_tokens", "must not exceed max_new_tokens");
  }
  FERMATA_RETURN_IF_ERROR(CheckRange("sampling.logprobs", params.logprobs, -1, kMaxLogprobs));
  FERMATA_RETURN_IF_ERROR(CheckTokens(params, vocab_size));
  return CheckStopStrings(params);
}

}  // namespace fermata
