// What holding the weights in fewer bits leaves as it was: every sequence's bits, whatever is computed
// beside it; and how little it changes.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using Json = nlohmann::json;

// Random weights, with matrices held as one type.
class TypedWeights : public RandomWeights {
 public:
  explicit TypedWeights(WeightType type) : RandomWeights(11), type_(type) {}
  WeightType matrix_type(std::string_view) const override { return type_; }

 private:
  WeightType type_;
};

struct Case {
  std::string name;
  Json config;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Wide enough for the rule by which small matrices stay float32.
std::vector<Case> Families() {
  const Json common = {{"hidden_size", 192},       {"num_hidden_layers", 2}, {"num_heads", 3},
                       {"intermediate_size", 256}, {"vocab_size", 200},      {"head_dim", 64}};
  const std::pair<const char*, Json> families[] = {
      {"linear_attn", {{"feature_map", "elu"}, {"norm_feature_map", true}}},
      {"transformer", {{"window_size", 24}}},
      {"retnet", Json::object()},
      {"gla", Json::object()},
      {"delta_net", Json::object()},
      {"gated_deltanet", Json::object()},
      {"mamba2", {{"num_heads", 6}, {"n_groups", 2}, {"hidden_act", "silu"}}},
      {"rwkv4", Json::object()},
      {"rwkv5", Json::object()},
      {"rwkv6", {{"expand_k", 1}}},
      {"rwkv7", Json::object()},
  };
  std::vector<Case> cases;
  for (const auto& [type, change] : families) {
    Json config = common;
    config.update({{"model_type", type}});
    config.update(change);
    cases.push_back({type, config});
  }
  return cases;
}

class WeightTypesTest : public testing::TestWithParam<Case> {
 protected:
  ~WeightTypesTest() override { SetComputeThreads(threads_); }

  static std::unique_ptr<Model> Make(WeightType type) {
    TypedWeights weights(type);
    ConfigReader reader(GetParam().config, "config.json");
    return Model::Create(reader, weights).value();
  }

  const int threads_ = ComputeThreads();
};

// 64 sequences of mixed lengths, each at a position of its own, in one step: prompts and single
// tokens side by side.
TEST_P(WeightTypesTest, InCompanyAsAloneToTheBit) {
  constexpr size_t kSequences = 64;
  for (const auto& [type, name] : kWeightTypeNames) {
    SCOPED_TRACE(std::string(name));
    const auto model = Make(type);
    std::vector<SequenceState> alone;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<float> expected;
    for (size_t i = 0; i < kSequences; ++i) {
      alone.push_back(model->NewState());
      Feed(*model, alone.back(), RandomTokens(1 + static_cast<int64_t>(i) % 5, 200, i),
           Form::kRecurrent);
      tokens.push_back(RandomTokens(i % 3 == 0 ? 1 + static_cast<int64_t>(i) / 4 : 1, 200, 99 + i));
    }
    std::vector<SequenceState> before;
    for (const SequenceState& state : alone) before.push_back(Fork(state));
    for (size_t i = 0; i < kSequences; ++i) {
      const Outputs run = Feed(*model, alone[i], tokens[i], Form::kRecurrent);
      expected.insert(expected.end(), run.logits.begin(), run.logits.end());
    }
    for (const int threads : {1, 2, 4}) {
      SetComputeThreads(threads, 1);
      std::vector<SequenceState> together;
      for (const SequenceState& state : before) together.push_back(Fork(state));
      std::vector<SequenceStep> steps;
      for (size_t i = 0; i < kSequences; ++i) {
        steps.push_back(
            {.tokens = tokens[i], .state = &together[i], .logits = SequenceStep::Logits::kAll});
      }
      Model::Workspace workspace;
      const auto logits = model->Forward(steps, Form::kRecurrent, workspace);
      EXPECT_TRUE(SameBits(logits, expected)) << threads << " threads";
      for (size_t i = 0; i < kSequences; ++i) {
        EXPECT_TRUE(SameBits(together[i], alone[i])) << "state " << i << ", " << threads;
      }
    }
    SetComputeThreads(threads_);
  }
}

// Bounds from the bits of each type: some 2^-8, 2^-7 and 2^-3.5 of a product's terms, which add up
// as noise does.
TEST_P(WeightTypesTest, ChangesLogitsALittle) {
  const std::vector<int32_t> tokens = RandomTokens(40, 200, 5);
  const auto run = [&tokens](WeightType type) {
    const auto model = Make(type);
    SequenceState state = model->NewState();
    return Feed(*model, state, tokens, Form::kRecurrent).logits;
  };
  const std::vector<float> exact = run(WeightType::kF32);
  const auto relative = [&exact](const std::vector<float>& logits) {
    double error = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(double{logits[i]} - exact[i], 2);
      size += std::pow(double{exact[i]}, 2);
    }
    return std::sqrt(error / size);
  };
  const double bf16 = relative(run(WeightType::kBf16));
  const double int8 = relative(run(WeightType::kInt8));
  const double int4 = relative(run(WeightType::kInt4));
  EXPECT_GT(bf16, 0) << "no matrix is held so";
  EXPECT_LT(bf16, 0.05);
  EXPECT_GT(int8, 0);
  EXPECT_LT(int8, 0.15);
  EXPECT_GT(int4, int8);
  EXPECT_LT(int4, 0.8);
}

INSTANTIATE_TEST_SUITE_P(Families, WeightTypesTest, testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fermata
