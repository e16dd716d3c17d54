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
                                                const nlohmann::json& config, WeightSource& weights,
                                                int64_t layer = 0);
// Likewise; throws where it can not be made.
std::unique_ptr<Mixer> MakeMixer(std::string_view name, int64_t hidden,
                                 const nlohmann::json& config, WeightSource& weights,
                                 int64_t layer = 0);

// All that a mixer keeps of a sequence. Copying one forks the sequence.
struct Sequence {
  explicit Sequence(const Mixer& mixer) : state(StateFloats(mixer)) {}

  SequenceRows Rows(int64_t begin, int64_t count);
  bool operator==(const Sequence&) const = default;

  std::vector<float> state;
  std::vector<float> cache;
  int64_t position = 0;
};

// What stands for the first layer's values in the tests of later ones, [rows,
// value_residual_floats()]: each row is that of x [rows, hidden], over and over.
std::vector<float> ValueResidual(const Mixer& mixer, std::span<const float> x, int64_t rows);

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
double ReferenceSigmoid(double x);
double ReferenceSoftplus(double x);
// By the names of configs; the tanh form for every gelu.
double ReferenceActivation(const std::string& name, double x);

// The convolution over x [rows, width] whose tensors are "m.<name>.weight" and, with a bias,
// "m.<name>.bias"; nothing else.
struct ReferenceConvolution {
  int64_t width = 0;
  int64_t taps = 0;
  bool bias = false;
};
Doubles ReferenceConvolve(RandomWeights& weights, const std::string& name, const Doubles& x,
                          const ReferenceConvolution& convolution);
// What the config says of the way to the letter's rows [rows, width]: a product, and with
// use_short_conv (by default `convolve`) a convolution. `act` behind the convolution.
Doubles ReferenceProjection(RandomWeights& weights, const std::string& letter, const Doubles& x,
                            int64_t width, const nlohmann::json& config, bool convolve,
                            const std::string& act);

// Each head of x [rows, heads, dim], `group` times: [rows, heads · group, dim].
Doubles RepeatHeads(const Doubles& x, int64_t dim, int64_t group);
// Turns the pairs (i, i + dim/2) of each head of x [rows, heads, dim] by its row · base^(-2i/dim).
void ReferenceRotate(Doubles& x, int64_t heads, int64_t dim, double base);

// S_t = diag(w_t) S_{t-1} + β_t k_t (v_t - u_t)ᵀ, o_t = S_tᵀ q_t with u_t = (diag(w_t) S_{t-1})ᵀ k_t
// for the delta rule, else 0. Rows are [rows, heads, dim].
struct ReferenceRecurrence {
  int64_t heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  bool delta = false;
  Doubles q, k, v;
  Doubles w;     // [rows, heads, key_dim]
  Doubles beta;  // [rows, heads]; empty for 1.

  Doubles Output() const;
};

// o [rows, heads, dim] through the norm `norm` (none where empty; weights unless `plain`), the gate
// act(W_g x) (none where empty) and o_proj.
struct ReferenceOutput {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  std::string norm;
  double eps = 1e-6;
  bool plain = false;
  std::string gate_act;
};
Doubles ReferenceHeadOutput(RandomWeights& weights, const Doubles& x, Doubles o,
                            const ReferenceOutput& output);

inline constexpr int64_t kReferenceRows = 90;
// Feeds x [kReferenceRows, hidden] to the mixer in every form, in pieces, and expects what the
// reference says.
void ExpectMatches(const Mixer& mixer, const std::vector<float>& x, const Doubles& expected,
                   double tolerance = 2e-5);
// `config` with each of the changes, which must be refused with an error that names its field.
struct WrongField {
  std::string field;
  nlohmann::json value;
};
void ExpectRefused(std::string_view mixer, int64_t hidden, const nlohmann::json& config,
                   const std::vector<WrongField>& changes);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MIXERS_TESTING_H_
