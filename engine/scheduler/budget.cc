#include "engine/scheduler/budget.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace fermata {
namespace {

// Rows and tokens are counted in units of this many, so that the three costs are of one magnitude.
constexpr double kUnit = 64;
// In targets, of one step: how far its time is off what it costs, and how far costs drift.
constexpr double kNoise = 0.1;
constexpr double kDrift = 0.02;
constexpr double kFirstDoubt = 10;
// A step that something else on the machine held up is not taken for more than this many targets.
constexpr double kLongest = 4;

// The next place after `from` where a prompt that ends at `end` may be cut.
int64_t NextCut(int64_t from, int64_t end, int64_t chunk) {
  return std::min((from / chunk + 1) * chunk, end);
}

// The largest level to which all prompts can be filled within the budget.
int64_t WaterLevel(std::span<const PromptDemand> prompts, int64_t budget) {
  std::vector<int64_t> wants;
  for (const PromptDemand& prompt : prompts) wants.push_back(prompt.tokens);
  std::sort(wants.begin(), wants.end());
  auto left = static_cast<int64_t>(wants.size());
  for (const int64_t want : wants) {
    if (want * left > budget) return budget / left;
    budget -= want;
    --left;
  }
  return wants.empty() ? 0 : wants.back();
}

}  // namespace

StepBudget::StepBudget(const Options& options) : options_(options) {
  assert(options.min_tokens >= 1 && options.min_tokens <= options.max_tokens);
  for (size_t i = 0; i < 3; ++i) covariance_[i][i] = kFirstDoubt;
}

int64_t StepBudget::PromptTokens(int64_t decode_rows) const {
  if (decode_rows == 0 || std::isinf(options_.target_seconds)) return options_.max_tokens;
  const int64_t known = std::clamp(2 * largest_, options_.min_tokens, options_.max_tokens);
  const double left = 1 - costs_[0] - costs_[1] * (static_cast<double>(decode_rows) / kUnit);
  if (left <= 0) return options_.min_tokens;
  const double fits = left / std::max(costs_[2], 1e-9) * kUnit;
  return std::max(options_.min_tokens,
                  static_cast<int64_t>(std::min(fits, static_cast<double>(known))));
}

void StepBudget::Observe(int64_t decode_rows, int64_t prompt_tokens, double seconds) {
  if (std::isinf(options_.target_seconds)) return;
  largest_ = std::max(prompt_tokens, largest_ - largest_ / 16);

  const Vector x = {1, static_cast<double>(decode_rows) / kUnit,
                    static_cast<double>(prompt_tokens) / kUnit};
  const double time = std::min(seconds / options_.target_seconds, kLongest);
  Vector px = {};
  for (size_t i = 0; i < 3; ++i) {
    covariance_[i][i] += kDrift * kDrift;
    px[i] = std::inner_product(x.begin(), x.end(), covariance_[i].begin(), 0.0);
  }
  const double spread = std::inner_product(x.begin(), x.end(), px.begin(), kNoise * kNoise);
  const double surprise = time - std::inner_product(x.begin(), x.end(), costs_.begin(), 0.0);
  for (size_t i = 0; i < 3; ++i) {
    costs_[i] = std::max(costs_[i] + px[i] / spread * surprise, 0.0);
    for (size_t j = 0; j < 3; ++j) covariance_[i][j] -= px[i] * px[j] / spread;
  }
}

double StepBudget::Seconds(int64_t decode_rows, int64_t prompt_tokens) const {
  return options_.target_seconds * (costs_[0] + (costs_[1] * static_cast<double>(decode_rows) +
                                                 costs_[2] * static_cast<double>(prompt_tokens)) /
                                                    kUnit);
}

std::vector<int64_t> SharePromptBudget(std::span<const PromptDemand> prompts, int64_t budget,
                                       int64_t chunk) {
  const int64_t level = WaterLevel(prompts, budget);
  std::vector<int64_t> shares;
  for (const auto& [position, tokens] : prompts) {
    int64_t share = std::min(tokens, level);
    if (share < tokens) share = std::max((position + share) / chunk * chunk - position, int64_t{0});
    shares.push_back(share);
    budget -= share;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const int64_t at = prompts[i].position + shares[i];
      const int64_t end = prompts[i].position + prompts[i].tokens;
      const int64_t piece = NextCut(at, end, chunk) - at;
      if (piece <= 0 || piece > budget) continue;
      shares[i] += piece;
      budget -= piece;
      moved = true;
    }
  }
  return shares;
}

}  // namespace fermata
