#include "tests/engine/mixers/testing.h"

#include <random>
#include <set>
#include <stdexcept>
#include <utility>

namespace fermata {

absl::StatusOr<std::unique_ptr<Mixer>> TryMixer(std::string_view name, int64_t hidden,
                                                const nlohmann::json& config,
                                                WeightSource& weights) {
  ConfigReader reader(config, "config.json");
  return CreateMixer(name, {.hidden_size = hidden,
                            .layer = 0,
                            .config = &reader,
                            .weights = WeightScope(weights, "m.")});
}

std::unique_ptr<Mixer> MakeMixer(std::string_view name, int64_t hidden,
                                 const nlohmann::json& config, WeightSource& weights) {
  auto mixer = TryMixer(name, hidden, config, weights);
  if (!mixer.ok()) throw std::runtime_error(mixer.status().ToString());
  return *std::move(mixer);
}

SequenceRows Sequence::Rows(int64_t begin, int64_t count) {
  return {
      .begin = begin, .count = count, .position = position, .state = state.data(), .cache = &cache};
}

std::vector<float> Feed(const Mixer& mixer, Sequence& sequence, std::span<const float> x,
                        std::span<const int64_t> cuts, Form form, MixerCounters* counters) {
  const auto hidden = static_cast<int64_t>(x.size()) / cuts.back();
  Arena arena;
  std::vector<float> out(x.size(), NAN);
  int64_t begin = 0;
  for (const int64_t end : cuts) {
    if (end == begin) continue;
    const SequenceRows rows = sequence.Rows(0, end - begin);
    mixer.Forward({&rows, 1}, x.data() + begin * hidden, end - begin, out.data() + begin * hidden,
                  {.form = form, .arena = &arena, .counters = counters});
    sequence.position += end - begin;
    begin = end;
  }
  return out;
}

std::vector<float> Feed(const Mixer& mixer, Sequence& sequence, std::span<const float> x,
                        int64_t rows, Form form, MixerCounters* counters) {
  return Feed(mixer, sequence, x, std::span<const int64_t>(&rows, 1), form, counters);
}

std::vector<int64_t> RandomCuts(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<int64_t> cuts = {count};
  for (uint64_t more = 1 + random() % 6; more > 0; --more) {
    cuts.insert(1 + static_cast<int64_t>(random() % count));
  }
  return {cuts.begin(), cuts.end()};
}

Doubles Tensor(RandomWeights& weights, const std::string& name, std::vector<int64_t> shape) {
  const auto tensor = weights.Read("m." + name, shape);
  if (!tensor.ok()) throw std::runtime_error(tensor.status().ToString());
  return {tensor->begin(), tensor->end()};
}

Doubles ReferenceLinear(RandomWeights& weights, const std::string& name, const Doubles& x,
                        int64_t in, int64_t out) {
  const Doubles matrix = Tensor(weights, name, {out, in});
  const auto rows = static_cast<int64_t>(x.size()) / in;
  Doubles y(rows * out);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < out; ++i) {
      for (int64_t j = 0; j < in; ++j) y[row * out + i] += matrix[i * in + j] * x[row * in + j];
    }
  }
  return y;
}

void ReferenceRmsNorm(Doubles& x, int64_t dim, double eps, const Doubles& weight) {
  for (size_t row = 0; row < x.size(); row += dim) {
    double square = 0;
    for (int64_t i = 0; i < dim; ++i) square += x[row + i] * x[row + i];
    const double scale = 1 / std::sqrt(square / static_cast<double>(dim) + eps);
    for (int64_t i = 0; i < dim; ++i) x[row + i] *= scale * weight[i];
  }
}

double ReferenceSilu(double x) { return x / (1 + std::exp(-x)); }

}  // namespace fermata
