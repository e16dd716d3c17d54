#ifndef FERMATA_TESTS_ENGINE_MODEL_MODELS_H_
#define FERMATA_TESTS_ENGINE_MODEL_MODELS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "nlohmann/json.hpp"
#include "tests/files.h"

namespace fermata {

// Small configs of each kind of model that can be built: name, and config.json.
struct NamedConfig {
  std::string name;
  nlohmann::json config;
};
// Linear attention: plain, normalised with decay, with everything that Fermata adds to it.
std::vector<NamedConfig> LinearConfigs();
// Those, a hybrid and a transformer.
std::vector<NamedConfig> AllConfigs();

// The model that `config` describes, with random weights.
std::unique_ptr<Model> RandomModel(const nlohmann::json& config);
// The tensors that it is made of, float32.
std::vector<FileTensor> RandomTensors(const nlohmann::json& config);

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed);
// 0 = cuts[0] < … < cuts.back() = count.
std::vector<int64_t> RandomCuts(int64_t count, uint64_t seed);

struct Outputs {
  std::vector<float> logits;                      // [tokens, vocab]
  std::vector<std::vector<float>> hidden_states;  // Of the whole run: [layers + 2][tokens, hidden]
};
// Feeds `tokens` to `state`, cut at `cuts`.
Outputs Feed(const Model& model, SequenceState& state, std::span<const int32_t> tokens,
             std::span<const int64_t> cuts, Form form);
// … in one piece.
Outputs Feed(const Model& model, SequenceState& state, std::span<const int32_t> tokens, Form form);

SequenceState Fork(const SequenceState& state);
bool SameBits(std::span<const float> a, std::span<const float> b);
bool SameBits(const SequenceState& a, const SequenceState& b);
double MaxDifference(std::span<const float> a, std::span<const float> b);
double MaxAbs(std::span<const float> values);

inline constexpr Form kForms[] = {Form::kRecurrent, Form::kChunkwise, Form::kParallel};

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MODEL_MODELS_H_
