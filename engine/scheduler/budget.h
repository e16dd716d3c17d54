#ifndef FERMATA_ENGINE_SCHEDULER_BUDGET_H_
#define FERMATA_ENGINE_SCHEDULER_BUDGET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace fermata {

// How many prompt tokens a step may consume, and how the prompts share them. Tokens never depend on
// either: prompts are cut only where a cut changes no bits. Not thread-safe.

// Prompts move by at least this much a step, however dear their tokens are (or by the hard limit,
// where that is less).
inline constexpr int64_t kMinPromptTokens = 16;

// Estimates what a step costs from the steps that were: so much for itself, for each row that decodes
// and for each prompt token. The three follow a random walk, and a Kalman filter follows them (Kalman
// 1960): what recent steps have shown counts most, and a cost that they have not shown stays.
class StepBudget {
 public:
  struct Options {
    double target_seconds = 0;  // Of a step in which something decodes; infinity: no bound.
    int64_t min_tokens = 1;     // In [1, max_tokens]: prompts get so much even past the target.
    int64_t max_tokens = 1;     // Prompts never get more.
  };
  explicit StepBudget(const Options& options);

  // Prompt tokens that the next step may consume. All of max_tokens when nothing decodes; else what
  // fits into the target beside `decode_rows` rows, at most twice the largest step of late: what
  // larger ones cost is not known.
  int64_t PromptTokens(int64_t decode_rows) const;

  // What a step has cost.
  void Observe(int64_t decode_rows, int64_t prompt_tokens, double seconds);

  // What a step is expected to cost.
  double Seconds(int64_t decode_rows, int64_t prompt_tokens) const;

 private:
  using Vector = std::array<double, 3>;

  const Options options_;
  Vector costs_ = {};  // Of a step, of a row and of a token; in targets, a row being kUnit rows.
  std::array<Vector, 3> covariance_ = {};
  int64_t largest_ = 0;  // Prompt tokens of a step, fading.
};

// One prompt that is being read.
struct PromptDemand {
  int64_t position = 0;  // Of its state.
  int64_t tokens = 0;    // Left to read, at least 1.
};

// Shares `budget` tokens among the prompts: equal shares, and what a short prompt does not need goes
// to the others. Each share ends at a multiple of `chunk` of the position or at the prompt's end;
// what that leaves over goes to the first in order. With `budget` >= `chunk` >= 1 some prompt moves.
std::vector<int64_t> SharePromptBudget(std::span<const PromptDemand> prompts, int64_t budget,
                                       int64_t chunk);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_BUDGET_H_
