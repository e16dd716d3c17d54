#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/base/philox.h"
#include "engine/sampling/usable_logit.h"

namespace fermata {
namespace {

struct Candidate {
  double logit = 0;   // Adjusted.
  double weight = 0;  // Proportional to the probability; the most likely has 1.
  int32_t id = 0;
};

// The order of truncation: the most likely first, equals by id. Total, so that what is kept does
// not depend on how the library selects.
bool Precedes(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void Penalize(const SamplingParams& params, const SamplerMemory& memory,
              std::vector<Candidate>& all) {
  const auto& tokens = memory.tokens();
  const size_t window = std::min<size_t>(params.penalty_window, tokens.size());
  absl::flat_hash_map<int32_t, int> counts;
  for (size_t i = tokens.size() - window; i < tokens.size(); ++i) ++counts[tokens[i]];
  for (const auto& [id, count] : counts) {
    if (static_cast<size_t>(id) >= all.size()) continue;
    double& logit = all[id].logit;
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.presence_penalty + count * params.frequency_penalty;
  }
}

// All tokens in order of id, with bias, penalties and the ban of stop tokens.
void Adjust(std::span<const float> logits, const SamplingParams& params,
            const SamplerMemory& memory, bool allow_stop, std::vector<Candidate>& all) {
  all.resize(logits.size());
  for (size_t id = 0; id < logits.size(); ++id) {
    all[id] = {.logit = UsableLogit(logits[id]), .weight = 0, .id = static_cast<int32_t>(id)};
  }
  for (const auto& [id, bias] : params.logit_bias) all[id].logit += bias;
  if (params.repetition_penalty != 1 || params.presence_penalty != 0 ||
      params.frequency_penalty != 0) {
    Penalize(params, memory, all);
  }
  if (!allow_stop) {
    for (const int32_t id : params.stop_token_ids) all[id].logit = kImpossible;
  }
}

int32_t SmallestAllowed(const SamplingParams& params, bool allow_stop, size_t vocab_size) {
  const auto& banned = params.stop_token_ids;
  for (int32_t id = 0; !allow_stop && static_cast<size_t>(id) < vocab_size; ++id) {
    if (std::find(banned.begin(), banned.end(), id) == banned.end()) return id;
  }
  return 0;
}

double Sum(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

// The last of the `k` first by Precedes. Reorders `selection`.
Candidate LastOfTopK(size_t k, std::vector<Candidate>& selection) {
  std::nth_element(selection.begin(), selection.begin() + (k - 1), selection.end(), Precedes);
  return selection[k - 1];
}

// The last of the fewest first by Precedes whose weights reach `mass`. Reorders `selection`: sorts
// ever longer beginnings of it, since few tokens hold most of the mass.
Candidate LastOfTopP(double mass, std::vector<Candidate>& selection) {
  double reached = 0;
  size_t sorted = 0;
  for (size_t end = std::min<size_t>(64, selection.size()); sorted < selection.size();
       end = std::min(8 * end, selection.size())) {
    const auto from = selection.begin() + sorted;
    const auto to = selection.begin() + end;
    if (to != selection.end()) std::nth_element(from, to, selection.end(), Precedes);
    std::sort(from, to, Precedes);
    for (; sorted < end; ++sorted) {
      reached += selection[sorted].weight;
      if (reached >= mass) return selection[sorted];
    }
  }
  return selection.back();
}

// Keeps `last` and what precedes it, in the order in which they stand.
void KeepUpTo(const Candidate& last, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [&](const Candidate& c) { return Precedes(last, c); });
}

void Truncate(const SamplingParams& params, std::vector<Candidate>& candidates) {
  thread_local std::vector<Candidate> selection;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < candidates.size()) {
    selection = candidates;
    KeepUpTo(LastOfTopK(params.top_k, selection), candidates);
  }
  if (params.top_p < 1) {
    // All tokens below a fraction (1 - p) / n of the mass hold less than what may be dropped, so
    // the rest reaches p. Half of that leaves room for rounding.
    const double sum = Sum(candidates);
    const double least = 0.5 * (1 - params.top_p) * sum / static_cast<double>(candidates.size());
    selection.clear();
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(selection),
                 [&](const Candidate& c) { return c.weight >= least; });
    KeepUpTo(LastOfTopP(params.top_p * sum, selection), candidates);
  }
  if (params.min_p > 0) {
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < params.min_p; });
  }
}

// The candidate at the fraction `uniform` of the mass, counted in order of id.
int32_t Draw(const std::vector<Candidate>& candidates, double uniform) {
  const double target = uniform * Sum(candidates);
  double reached = 0;
  int32_t chosen = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0) continue;
    chosen = candidate.id;
    reached += candidate.weight;
    if (reached > target) break;
  }
  return chosen;
}

int32_t Choose(std::span<const float> logits, const SamplingParams& params,
               const SamplerMemory& memory, int64_t position, bool allow_stop) {
  thread_local std::vector<Candidate> candidates;
  Adjust(logits, params, memory, allow_stop, candidates);
  Candidate best = candidates.front();
  for (const Candidate& candidate : candidates) {
    if (candidate.logit > best.logit) best = candidate;
  }
  if (best.logit == kImpossible) return SmallestAllowed(params, allow_stop, logits.size());
  if (params.temperature == 0) return best.id;
  for (Candidate& candidate : candidates) {
    candidate.weight = std::exp((candidate.logit - best.logit) / params.temperature);
  }
  Truncate(params, candidates);
  return Draw(candidates, PhiloxUniform(params.seed, static_cast<uint64_t>(position), 0));
}

}  // namespace

SampledToken Sample(std::span<const float> logits, const SamplingParams& params,
                    const SamplerMemory& memory, int64_t position, bool allow_stop) {
  assert(!logits.empty());
  const int32_t token = Choose(logits, params, memory, position, allow_stop);
  if (params.logprobs < 0) return {.token = token, .logprob = 0, .top = {}};
  return ScoreToken(logits, token, params.logprobs);
}

}  // namespace fermata
