#include "engine/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "engine/base/philox.h"
#include "engine/kernels/softmax_weights.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/usable_logit.h"

namespace fermata {
namespace {

// So few tokens are sorted rather than divided further.
constexpr int64_t kFewTokens = 1024;
constexpr int kMaxHalvings = 24;

// A row of logits, taken apart: the tokens whose logit bias, penalties and the ban of stop tokens
// have changed stand aside, and count as impossible among the others. Scratch memory of one thread;
// after the first rows it allocates nothing.
class Row {
 public:
  void Reset(std::span<const float> logits, const SamplingParams& params,
             const SamplerMemory& memory, bool allow_stop);

  double largest() const { return largest_; }
  // In order of id, all that may be among the `count` first by Precedes, and few more.
  std::vector<Candidate>& First(int64_t count) { return From(blocks_.Bound(count)); }
  // In order of id, all whose logit is at least `bound`.
  std::vector<Candidate>& From(double bound);

  // A bound for From that all tokens of at least this weight reach, though they be off by rounding.
  double LogitOf(double weight, double temperature) const;

  // The weights of all tokens at this temperature: see SoftmaxWeights.
  void Weigh(double temperature);
  std::span<const double> weights() const { return weights_; }
  // The sums of their blocks alone, and then the weights of one block.
  void WeighBlocks(double temperature);
  std::array<double, kVocabularyBlock> WeightsOf(int64_t block, double temperature) const;
  std::span<const double> block_weights() const { return sums_; }
  double WeightOf(double logit, double temperature) const {
    return std::exp((logit - largest_) / temperature);
  }
  // Of a token that about `rank` others outweigh; 0 when that is not known.
  double WeightOfRank(int64_t rank, double temperature) {
    return WeightOf(blocks_.Bound(rank), temperature);
  }
  // Once they are weighed: in order of id and with their weights, all that weigh at least `least`.
  std::vector<Candidate>& Weighing(double least, double temperature);

 private:
  // Fills window_ and aside_, there with the logits as they are.
  void SetAside(const SamplingParams& params, const SamplerMemory& memory, bool allow_stop);
  // The logit of a token that stands aside.
  double& Aside(int32_t id);
  void Penalize(const SamplingParams& params);

  std::span<const float> logits_;  // Without those that stand aside.
  std::vector<float> copy_;
  std::vector<int32_t> window_;
  std::vector<Candidate> aside_;  // In order of id.
  BlockLogits blocks_;
  double largest_ = kImpossible;
  std::vector<Candidate> others_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
  std::vector<double> sums_;
};

bool ByID(const Candidate& a, const Candidate& b) { return a.id < b.id; }

void Row::Reset(std::span<const float> logits, const SamplingParams& params,
                const SamplerMemory& memory, bool allow_stop) {
  logits_ = logits;
  SetAside(params, memory, allow_stop);
  for (const auto& [id, bias] : params.logit_bias) Aside(id) += bias;
  Penalize(params);
  if (!allow_stop) {
    for (const int32_t id : params.stop_token_ids) Aside(id) = kImpossible;
  }
  if (!aside_.empty()) {
    copy_.assign(logits.begin(), logits.end());
    for (const Candidate& token : aside_) copy_[token.id] = static_cast<float>(kImpossible);
    logits_ = copy_;
  }
  blocks_.Reset(logits_);
  largest_ = blocks_.largest();
  for (const Candidate& token : aside_) largest_ = std::max(largest_, token.logit);
}

void Row::SetAside(const SamplingParams& params, const SamplerMemory& memory, bool allow_stop) {
  window_.clear();
  if (params.repetition_penalty != 1 || params.presence_penalty != 0 ||
      params.frequency_penalty != 0) {
    const auto& tokens = memory.tokens();
    const auto length = std::min<std::ptrdiff_t>(params.penalty_window, tokens.size());
    std::copy_if(tokens.end() - length, tokens.end(), std::back_inserter(window_),
                 [&](int32_t id) { return static_cast<size_t>(id) < logits_.size(); });
    std::sort(window_.begin(), window_.end());
  }
  aside_.clear();
  const auto add = [&](int32_t id) {
    aside_.push_back({.logit = UsableLogit(logits_[id]), .weight = 0, .id = id});
  };
  for (const int32_t id : window_) add(id);
  for (const auto& [id, bias] : params.logit_bias) add(id);
  if (!allow_stop) {
    for (const int32_t id : params.stop_token_ids) add(id);
  }
  std::sort(aside_.begin(), aside_.end(), ByID);
  const auto same = [](const Candidate& a, const Candidate& b) { return a.id == b.id; };
  aside_.erase(std::unique(aside_.begin(), aside_.end(), same), aside_.end());
}

double& Row::Aside(int32_t id) {
  return std::lower_bound(aside_.begin(), aside_.end(), Candidate{.id = id}, ByID)->logit;
}

void Row::Penalize(const SamplingParams& params) {
  for (auto begin = window_.begin(); begin != window_.end();) {
    const auto end = std::upper_bound(begin, window_.end(), *begin);
    const auto count = static_cast<int>(end - begin);
    double& logit = Aside(*begin);
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.presence_penalty + count * params.frequency_penalty;
    begin = end;
  }
}

std::vector<Candidate>& Row::From(double bound) {
  others_.clear();
  blocks_.AppendFrom(bound, others_);
  candidates_.resize(others_.size() + aside_.size());
  std::merge(others_.begin(), others_.end(), aside_.begin(), aside_.end(), candidates_.begin(),
             ByID);
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    return candidate.logit < bound || candidate.logit == kImpossible;
  });
  return candidates_;
}

double Row::LogitOf(double weight, double temperature) const {
  constexpr double kLogError = 1e-9;
  constexpr double kLogitError = 1e-15;
  return largest_ + temperature * (std::log(weight) - kLogError) - kLogitError * std::abs(largest_);
}

void Row::Weigh(double temperature) {
  const auto count = static_cast<int64_t>(logits_.size());
  sums_.resize(VocabularyBlocks(count));
  weights_.resize(sums_.size() * kVocabularyBlock);
  SoftmaxWeights(logits_.data(), count, largest_, temperature, weights_.data(), sums_.data());
  for (const Candidate& token : aside_) {
    weights_[token.id] = WeightOf(token.logit, temperature);
  }
  for (const Candidate& token : aside_) {
    const int64_t block = token.id / kVocabularyBlock;
    sums_[block] = BlockSum(weights_.data() + block * kVocabularyBlock);
  }
}

void Row::WeighBlocks(double temperature) {
  const auto count = static_cast<int64_t>(logits_.size());
  sums_.resize(VocabularyBlocks(count));
  SoftmaxBlockSums(logits_.data(), count, largest_, temperature, sums_.data());
  int64_t last = -1;
  for (const Candidate& token : aside_) {
    const int64_t block = token.id / kVocabularyBlock;
    if (block != last) sums_[block] = BlockSum(WeightsOf(block, temperature).data());
    last = block;
  }
}

std::array<double, kVocabularyBlock> Row::WeightsOf(int64_t block, double temperature) const {
  const int64_t begin = block * kVocabularyBlock;
  const auto logits = logits_.subspan(begin);
  const auto count = std::min<int64_t>(logits.size(), kVocabularyBlock);
  std::array<double, kVocabularyBlock> weights;
  double sum;
  SoftmaxWeights(logits.data(), count, largest_, temperature, weights.data(), &sum);
  const Candidate first = {.id = static_cast<int32_t>(begin)};
  for (auto token = std::lower_bound(aside_.begin(), aside_.end(), first, ByID);
       token != aside_.end() && token->id < begin + count; ++token) {
    weights[token->id - begin] = WeightOf(token->logit, temperature);
  }
  return weights;
}

std::vector<Candidate>& Row::Weighing(double least, double temperature) {
  std::vector<Candidate>& candidates = From(LogitOf(least, temperature));
  for (Candidate& candidate : candidates) candidate.weight = weights_[candidate.id];
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < least; });
  return candidates;
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

// The last of the fewest first by Precedes whose weights reach `mass`, or the last of all. Reorders
// `selection`: sorts ever longer beginnings of it, since few tokens hold most of the mass.
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

// The top_k kept of few candidates, which hold them all; then top_p of those.
void TruncateFew(const SamplingParams& params, std::vector<Candidate>& candidates) {
  thread_local std::vector<Candidate> selection;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < candidates.size()) {
    selection = candidates;
    KeepUpTo(LastOfTopK(params.top_k, selection), candidates);
  }
  if (params.top_p < 1) {
    selection = candidates;
    KeepUpTo(LastOfTopP(params.top_p * Sum(candidates), selection), candidates);
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

// The same of all tokens of a row.
int32_t DrawOfAll(Row& row, double temperature, double uniform) {
  row.WeighBlocks(temperature);
  const std::span<const double> blocks = row.block_weights();
  const double target = uniform * std::accumulate(blocks.begin(), blocks.end(), 0.0);
  // Rounding must not lead past the last block that weighs anything.
  size_t block = 0;
  double reached = 0;
  double before = 0;
  for (size_t next = 0; next < blocks.size() && reached <= target; ++next) {
    if (blocks[next] == 0) continue;
    block = next;
    before = reached;
    reached += blocks[next];
  }
  const auto weights = row.WeightsOf(static_cast<int64_t>(block), temperature);
  size_t chosen = 0;
  reached = before;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    reached += weights[i];
    if (reached > target) break;
  }
  return static_cast<int32_t>(block * kVocabularyBlock + chosen);
}

// The top_p kept of all tokens of a row that has been weighed. Halves the range (of logarithms) in
// which the least weight that is kept lies, until few tokens are left to sort.
std::vector<Candidate>& TopPOfAll(const SamplingParams& params, Row& row) {
  const auto blocks = static_cast<int64_t>(row.block_weights().size());
  const auto from = [&](double least) { return MassFrom(least, row.weights().data(), blocks); };
  const std::span<const double> sums = row.block_weights();
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  const double mass = params.top_p * sum;
  // All tokens below a fraction (1 - p) / n of the mass hold less than what may be dropped, so the
  // rest reaches p. Half of that leaves room for rounding.
  double low = 0.5 * (1 - params.top_p) * sum / static_cast<double>(row.weights().size());
  double high = 2;  // More than any.
  Mass above_low = {.count = blocks * kVocabularyBlock, .sum = sum};
  Mass above_high;
  // The first guess is right for most texts, whose next token is one of few.
  double middle = std::clamp(row.WeightOfRank(kFewTokens / 4, params.temperature), low, 1.0);
  for (int i = 0; i < kMaxHalvings && above_low.count - above_high.count > kFewTokens; ++i) {
    const Mass above = from(middle);
    (above.sum >= mass ? low : high) = middle;
    (above.sum >= mass ? above_low : above_high) = above;
    middle = std::sqrt(low * high);
  }
  std::vector<Candidate>& candidates = row.Weighing(low, params.temperature);
  thread_local std::vector<Candidate> selection;
  selection.clear();
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(selection),
               [&](const Candidate& c) { return c.weight < high; });
  // Empty only when rounding has the whole sum fall short of top_p.
  if (!selection.empty()) KeepUpTo(LastOfTopP(mass - above_high.sum, selection), candidates);
  return candidates;
}

// Those of the row that top_k, top_p and min_p keep, in order of id.
std::vector<Candidate>& Truncated(const SamplingParams& params, int64_t vocab_size, Row& row) {
  const bool top_k = params.top_k > 0 && params.top_k < vocab_size;
  std::vector<Candidate>* kept = nullptr;
  if (top_k || params.top_p == 1) {
    // What is kept can be told by the logits alone.
    kept =
        top_k ? &row.First(params.top_k) : &row.From(row.LogitOf(params.min_p, params.temperature));
    for (Candidate& candidate : *kept) {
      candidate.weight = row.WeightOf(candidate.logit, params.temperature);
    }
    TruncateFew(params, *kept);
  } else {
    row.Weigh(params.temperature);
    kept = &TopPOfAll(params, row);
  }
  std::erase_if(*kept, [&](const Candidate& c) { return c.weight < params.min_p; });
  return *kept;
}

int32_t Choose(std::span<const float> logits, const SamplingParams& params,
               const SamplerMemory& memory, int64_t position, bool allow_stop) {
  thread_local Row row;
  row.Reset(logits, params, memory, allow_stop);
  if (row.largest() == kImpossible) return SmallestAllowed(params, allow_stop, logits.size());
  if (params.temperature == 0) return row.From(row.largest()).front().id;
  const double uniform = PhiloxUniform(params.seed, static_cast<uint64_t>(position), 0);
  const auto vocab_size = static_cast<int64_t>(logits.size());
  if ((params.top_k == 0 || params.top_k >= vocab_size) && params.top_p == 1 && params.min_p == 0) {
    return DrawOfAll(row, params.temperature, uniform);
  }
  return Draw(Truncated(params, vocab_size, row), uniform);
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
