#include "tests/engine/mixers/testing.h"

#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {

absl::StatusOr<std::unique_ptr<Mixer>> TryMixer(std::string_view name, int64_t hidden,
                                                const nlohmann::json& config, WeightSource& weights,
                                                int64_t layer) {
  ConfigReader reader(config, "config.json");
  return CreateMixer(name, {.hidden_size = hidden,
                            .layer = layer,
                            .config = &reader,
                            .weights = WeightScope(weights, "m.")});
}

std::unique_ptr<Mixer> MakeMixer(std::string_view name, int64_t hidden,
                                 const nlohmann::json& config, WeightSource& weights,
                                 int64_t layer) {
  auto mixer = TryMixer(name, hidden, config, weights, layer);
  if (!mixer.ok()) throw std::runtime_error(mixer.status().ToString());
  return *std::move(mixer);
}

SequenceRows Sequence::Rows(int64_t begin, int64_t count) {
  return {
      .begin = begin, .count = count, .position = position, .state = state.data(), .cache = &cache};
}

std::vector<float> ValueResidual(const Mixer& mixer, std::span<const float> x, int64_t rows) {
  const int64_t width = mixer.value_residual_floats();
  const int64_t hidden = static_cast<int64_t>(x.size()) / rows;
  std::vector<float> residual(rows * width);
  for (int64_t i = 0; i < rows * width; ++i)
    residual[i] = x[i / width * hidden + i % width % hidden];
  return residual;
}

std::vector<float> Feed(const Mixer& mixer, Sequence& sequence, std::span<const float> x,
                        std::span<const int64_t> cuts, Form form, MixerCounters* counters) {
  const auto hidden = static_cast<int64_t>(x.size()) / cuts.back();
  std::vector<float> residual = ValueResidual(mixer, x, cuts.back());
  Arena arena;
  std::vector<float> out(x.size(), NAN);
  int64_t begin = 0;
  for (const int64_t end : cuts) {
    if (end == begin) continue;
    const SequenceRows rows = sequence.Rows(0, end - begin);
    mixer.Forward({&rows, 1}, x.data() + begin * hidden, end - begin, out.data() + begin * hidden,
                  {.form = form,
                   .arena = &arena,
                   .counters = counters,
                   .value_residual = residual.data() + begin * mixer.value_residual_floats()});
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

double ReferenceSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double ReferenceSoftplus(double x) { return std::log1p(std::exp(x)); }

double ReferenceActivation(const std::string& name, double x) {
  if (name == "identity" || name == "linear") return x;
  if (name == "relu") return std::max(x, 0.0);
  if (name == "sqrelu" || name == "relu2") return std::max(x, 0.0) * std::max(x, 0.0);
  if (name == "sigmoid") return ReferenceSigmoid(x);
  if (name == "logsigmoid") return std::log(ReferenceSigmoid(x));
  if (name == "silu" || name == "swish") return ReferenceSilu(x);
  if (name == "tanh") return std::tanh(x);
  if (name == "elu") return x > 0 ? x + 1 : std::exp(x);
  if (name.starts_with("gelu")) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  throw std::runtime_error("no reference for " + name);
}

Doubles ReferenceConvolve(RandomWeights& weights, const std::string& name, const Doubles& x,
                          const ReferenceConvolution& convolution) {
  const auto [width, taps, bias] = convolution;
  const Doubles weight = Tensor(weights, name + ".weight", {width, 1, taps});
  const Doubles added = bias ? Tensor(weights, name + ".bias", {width}) : Doubles(width);
  Doubles y(x.size());
  const auto rows = static_cast<int64_t>(x.size()) / width;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      double sum = added[i];
      for (int64_t back = 0; back < taps && back <= t; ++back) {
        sum += weight[i * taps + taps - 1 - back] * x[(t - back) * width + i];
      }
      y[t * width + i] = sum;
    }
  }
  return y;
}

Doubles ReferenceProjection(RandomWeights& weights, const std::string& letter, const Doubles& x,
                            int64_t width, const nlohmann::json& config, bool convolve,
                            const std::string& act) {
  const int64_t hidden = config.at("hidden_size");
  Doubles y = ReferenceLinear(weights, letter + "_proj.weight", x, hidden, width);
  if (!config.value("use_short_conv", convolve)) return y;
  y = ReferenceConvolve(weights, letter + "_conv1d", y,
                        {.width = width,
                         .taps = config.value("conv_size", int64_t{4}),
                         .bias = config.value("conv_bias", false)});
  for (double& value : y) value = ReferenceActivation(act, value);
  return y;
}

Doubles RepeatHeads(const Doubles& x, int64_t dim, int64_t group) {
  Doubles repeated;
  for (auto head = x.begin(); head != x.end(); head += dim) {
    for (int64_t i = 0; i < group; ++i) repeated.insert(repeated.end(), head, head + dim);
  }
  return repeated;
}

void ReferenceRotate(Doubles& x, int64_t heads, int64_t dim, double base) {
  for (size_t head = 0; head < x.size() / dim; ++head) {
    const auto position = static_cast<double>(head / heads);
    for (int64_t i = 0; i < dim / 2; ++i) {
      const double angle = position * std::pow(base, -2.0 * i / dim);
      double& a = x[head * dim + i];
      double& b = x[head * dim + dim / 2 + i];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

Doubles ReferenceRecurrence::Output() const {
  const int64_t rows = static_cast<int64_t>(q.size()) / (heads * key_dim);
  Doubles o(rows * heads * value_dim);
  for (int64_t head = 0; head < heads; ++head) {
    Doubles S(key_dim * value_dim);
    for (int64_t at = head; at < rows * heads; at += heads) {
      for (int64_t i = 0; i < key_dim; ++i) {
        for (int64_t j = 0; j < value_dim; ++j) S[i * value_dim + j] *= w[at * key_dim + i];
      }
      for (int64_t j = 0; j < value_dim; ++j) {
        double value = v[at * value_dim + j];
        for (int64_t i = 0; delta && i < key_dim; ++i) {
          value -= S[i * value_dim + j] * k[at * key_dim + i];
        }
        value *= beta.empty() ? 1 : beta[at];
        for (int64_t i = 0; i < key_dim; ++i) {
          double& s = S[i * value_dim + j];
          s += k[at * key_dim + i] * value;
          o[at * value_dim + j] += s * q[at * key_dim + i];
        }
      }
    }
  }
  return o;
}

Doubles ReferenceHeadOutput(RandomWeights& weights, const Doubles& x, Doubles o,
                            const ReferenceOutput& output) {
  const auto& [hidden, heads, dim, norm, eps, plain, gate_act] = output;
  if (!norm.empty()) {
    ReferenceRmsNorm(o, dim, eps,
                     plain ? Doubles(dim, 1) : Tensor(weights, norm + ".weight", {dim}));
  }
  if (!gate_act.empty()) {
    const Doubles gate = ReferenceLinear(weights, "g_proj.weight", x, hidden, heads * dim);
    for (size_t i = 0; i < o.size(); ++i) o[i] *= ReferenceActivation(gate_act, gate[i]);
  }
  return ReferenceLinear(weights, "o_proj.weight", o, heads * dim, hidden);
}

void ExpectMatches(const Mixer& mixer, const std::vector<float>& x, const Doubles& expected,
                   double tolerance) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Sequence sequence(mixer);
    EXPECT_LE(
        Difference(Feed(mixer, sequence, x, std::vector<int64_t>{1, 2, 40, kReferenceRows}, form),
                   expected),
        tolerance);
  }
}

void ExpectRefused(std::string_view mixer, int64_t hidden, const nlohmann::json& config,
                   const std::vector<WrongField>& changes) {
  for (const auto& [field, value] : changes) {
    RandomWeights weights(1);
    nlohmann::json changed = config;
    changed[field] = value;
    const auto made = TryMixer(mixer, hidden, changed, weights);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << field << " " << value;
    EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr(field)) << value;
  }
}

}  // namespace fermata
