#include "tests/engine/model/models.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr uint64_t kSeed = 7;

std::unique_ptr<Model> Create(const nlohmann::json& config, WeightSource& weights) {
  ConfigReader reader(config, "config.json");
  auto model = Model::Create(reader, weights);
  if (!model.ok()) throw std::runtime_error(model.status().ToString());
  return *std::move(model);
}

nlohmann::json With(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

}  // namespace

std::vector<NamedConfig> LinearConfigs() {
  const nlohmann::json plain = {{"model_type", "linear_attn"},
                                {"hidden_size", 24},
                                {"num_hidden_layers", 2},
                                {"num_heads", 3},
                                {"vocab_size", 40},
                                {"intermediate_size", 48},
                                {"feature_map", "elu"},
                                {"bos_token_id", 1},
                                {"eos_token_id", {2, 3}}};
  const nlohmann::json decay = {{"norm_feature_map", true}, {"decay", {0.9, 0.99, 1.0}}};
  const nlohmann::json all = {{"use_short_conv", true},
                              {"conv_size", 4},
                              {"use_output_gate", true},
                              {"tie_word_embeddings", true}};
  return {{"linear", plain},
          {"linear, normalised, decaying", With(plain, decay)},
          {"linear, with all additions", With(With(plain, decay), all)}};
}

std::vector<NamedConfig> AllConfigs() {
  std::vector<NamedConfig> configs = LinearConfigs();
  const nlohmann::json plain = configs[0].config;
  configs.push_back(
      {"hybrid",
       With(plain, {{"attn", {{"layers", {1}}, {"num_heads", 2}, {"num_kv_heads", 1}}}})});
  const nlohmann::json transformer =
      With(plain, {{"model_type", "transformer"}, {"feature_map", nullptr}});
  configs.push_back({"transformer", transformer});
  configs.push_back({"transformer, windowed", With(transformer, {{"window_size", 16}})});
  const nlohmann::json other = {{"feature_map", nullptr}, {"head_dim", 8}, {"expand_k", 1}};
  for (const char* type : {"retnet", "gla", "delta_net", "gated_deltanet", "mamba2", "rwkv4",
                           "rwkv5", "rwkv6", "rwkv7"}) {
    nlohmann::json config = With(With(plain, other), {{"model_type", type}});
    if (config["model_type"] == "mamba2") {
      config.update({{"num_heads", 6}, {"n_groups", 2}, {"state_size", 5}, {"hidden_act", "silu"}});
    }
    configs.push_back({type, config});
  }
  return configs;
}

std::unique_ptr<Model> RandomModel(const nlohmann::json& config) {
  RandomWeights weights(kSeed);
  return Create(config, weights);
}

std::vector<FileTensor> RandomTensors(const nlohmann::json& config) {
  RandomWeights weights(kSeed);
  Create(config, weights);
  std::vector<FileTensor> tensors;
  for (const auto& [name, shape] : std::map(weights.asked())) {
    const auto values = weights.Read(name, shape);
    tensors.push_back(F32Tensor(name, shape, {values->begin(), values->end()}));
  }
  return tensors;
}

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

std::vector<int64_t> RandomCuts(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<int64_t> cuts = {0, count};
  for (uint64_t more = 1 + random() % 6; more > 0; --more) cuts.insert(random() % (count + 1));
  return {cuts.begin(), cuts.end()};
}

Outputs Feed(const Model& model, SequenceState& state, std::span<const int32_t> tokens,
             std::span<const int64_t> cuts, Form form) {
  Outputs run;
  Model::Workspace workspace;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<std::vector<float>> hidden_states;
    workspace.hidden_states = &hidden_states;
    const SequenceStep step = {.tokens = tokens.subspan(cuts[i], cuts[i + 1] - cuts[i]),
                               .state = &state,
                               .logits = SequenceStep::Logits::kAll};
    const auto logits = model.Forward({&step, 1}, form, workspace);
    run.logits.insert(run.logits.end(), logits.begin(), logits.end());
    run.hidden_states.resize(hidden_states.size());
    for (size_t layer = 0; layer < hidden_states.size(); ++layer) {
      auto& whole = run.hidden_states[layer];
      whole.insert(whole.end(), hidden_states[layer].begin(), hidden_states[layer].end());
    }
  }
  return run;
}

Outputs Feed(const Model& model, SequenceState& state, std::span<const int32_t> tokens, Form form) {
  return Feed(model, state, tokens, std::vector<int64_t>{0, static_cast<int64_t>(tokens.size())},
              form);
}

SequenceState Fork(const SequenceState& state) {
  SequenceState fork;
  fork.fixed = AlignedBuffer<float>(state.fixed.size());
  std::ranges::copy(state.fixed, fork.fixed.begin());
  fork.caches = state.caches;
  fork.position = state.position;
  return fork;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

bool SameBits(const SequenceState& a, const SequenceState& b) {
  return a.position == b.position && SameBits(a.fixed.span(), b.fixed.span()) &&
         std::ranges::equal(a.caches, b.caches,
                            [](const auto& x, const auto& y) { return SameBits(x, y); });
}

double MaxDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double result = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= result)) result = difference;
  }
  return result;
}

double MaxAbs(std::span<const float> values) {
  return MaxDifference(values, std::vector<float>(values.size()));
}

}  // namespace fermata
