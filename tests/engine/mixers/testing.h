#ifndef FERMATA_TESTS_ENGINE_MIXERS_TESTING_H_
#define FERMATA_TESTS_ENGINE_MIXERS_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/mixers/mixer.h"
#include "nlohmann/json.hpp"
#include "tests/random_weights.h"

namespace fermata {

inline constexpr Form kForms[] = {Form::kRecurrent, Form::kChunkwise, Form::kParallel};

// The mixer `name` under the prefix "m.".
absl::StatusOr<std::unique_ptr<Mixer>> TryMixer(std::string_view name, int64_t hidden,
                                                const nlohmann::json& config,
                                                WeightSource& weights);
// Likewise; throws where it can not be made.
std::unique_ptr<Mixer> MakeMixer(std::string_view name, int64_t hidden,
                                 const nlohmann::json& config, WeightSource& weights);

// All that a mixer keeps of a sequence. Copying one forks the sequence.
struct Sequence {
  explicit Sequence(const Mixer& mixer) : state(StateFloats(mixer)) {}

  SequenceRows Rows(int64_t begin, int64_t count);
  bool operator==(const Sequence&) const = default;

  std::vector<float> state;
  std::vector<float> cache;
  int64_t position = 0;
};

// The mixer's output for x [rows, hidden], the next tokens of `sequence`, fed in pieces that end at
// `cuts`; the last cut is the number of rows.
std::vector<float> Feed(const Mixer& mixer, Sequence& sequence, std::span<const float> x,
                        std::span<const int64_t> cuts, Form form,
                        MixerCounters* counters = nullptr);
// In one piece.
std::vector<float> Feed(const Mixer& mixer, Sequence& sequence, std::span<const float> x,
                        int64_t rows, Form form, MixerCounters* counters = nullptr);

// Random increasing cuts of `count` rows, the last of them `count`.
std::vector<int64_t> RandomCuts(int64_t count, uint64_t seed);

// The largest |a - b| over the largest |b|.
template <typename Expected>
double Difference(std::span<const float> actual, const std::vector<Expected>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double difference = 0, largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double distance = std::abs(actual[i] - static_cast<double>(expected[i]));
    if (!(distance <= difference)) difference = distance;  // NaN too.
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

// Float64, as the formulas stand: what the mixers are compared with.
using Doubles = std::vector<double>;
// x [rows, in] times the transpose of tensor "m.<name>" [out, in].
Doubles ReferenceLinear(RandomWeights& weights, const std::string& name, const Doubles& x,
                        int64_t in, int64_t out);
Doubles Tensor(RandomWeights& weights, const std::string& name, std::vector<int64_t> shape);
// Each row of x [rows, dim] over its root mean square, times `weight`.
void ReferenceRmsNorm(Doubles& x, int64_t dim, double eps, const Doubles& weight);
double ReferenceSilu(double x);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MIXERS_TESTING_H_
