#include "tests/conformance.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"

namespace fermata {
namespace {

constexpr double kStateTolerance = 1e-4;  // Relative to the largest number of the block.

// A published checkpoint with the outputs of its reference code.
struct Case {
  std::string name;
  nlohmann::json index;
  std::string model_type;
  std::filesystem::path directory;
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::map<std::string, TestTensor> expected;
  double tolerance = 0;
};

// The directory's model_type; empty where it has no config.
std::string ModelType(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path)) return "";
  auto config = ConfigReader::Parse(ReadBytes(path), path);
  return config.ok() ? config->String("model_type", "").value_or("") : "";
}

bool Known(const std::string& model_type) {
  return std::ranges::any_of(Architectures(), [&](const Architecture& architecture) {
    return architecture.model_type == model_type;
  });
}

// The cases whose architecture is known; says which are not.
const std::vector<Case>& Cases() {
  static const std::vector<Case>* const cases = [] {
    auto* result = new std::vector<Case>;
    const nlohmann::json all = ReadJson(*ConformanceDir() / "index.json");
    for (const auto& [name, index] : all.items()) {
      const std::filesystem::path directory = *ConformanceDir() / name;
      const std::string model_type = ModelType(directory);
      if (!Known(model_type)) {
        std::cout << "skipped: " << name << " (" << index.value("family", "") << ")\n";
        continue;
      }
      const nlohmann::json prompt = ReadJson(directory / "prompt.json");
      result->push_back({.name = name,
                         .index = index,
                         .model_type = model_type,
                         .directory = directory,
                         .prompt = prompt.at("prompt_ids").get<std::vector<int32_t>>(),
                         .greedy = prompt.at("greedy_ids").get<std::vector<int32_t>>(),
                         .expected = ReadSafetensors(directory / "expected.safetensors"),
                         .tolerance = index.at("atol_logits").get<double>()});
    }
    return result;
  }();
  return *cases;
}

class ConformanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FERMATA_SKIP_WITHOUT_CONFORMANCE();
    ASSERT_FALSE(Cases().empty());
  }

  // Runs `check(case, model)` on every case.
  template <typename Check>
  void Walk(Check check) {
    for (const Case& c : Cases()) {
      SCOPED_TRACE(c.name);
      const auto model = Model::Load(c.directory);
      ASSERT_TRUE(model.ok()) << model.status();
      check(c, **model);
    }
  }
};

TEST_F(ConformanceTest, InfoSaysWhatTheDirectoryHolds) {
  Walk([](const Case& c, const Model& model) {
    const ModelInfo& info = model.info();
    const auto dtypes = c.index.at("weights_dtype").get<std::vector<std::string>>();
    EXPECT_EQ(info.name, c.name);
    EXPECT_EQ(info.family, c.model_type);
    EXPECT_EQ(info.parameters, c.index.at("params").get<int64_t>());
    EXPECT_EQ(info.weights_dtype, dtypes.size() == 1 ? dtypes[0] : "mixed");
    EXPECT_EQ(info.vocab_size, c.expected.at("logits").shape[1]);
    EXPECT_EQ(info.hidden_size, c.expected.at("hidden_states").shape[2]);
    EXPECT_EQ(info.num_layers, c.expected.at("hidden_states").shape[0] - 1);
    EXPECT_EQ(info.fingerprint.size(), 32u);
    EXPECT_THAT(info.remarks, ::testing::IsEmpty()) << "a published field or tensor is not read";
  });
}

// Whole, and cut at random places.
TEST_F(ConformanceTest, LogitsAndHiddenStatesAgreeInEveryForm) {
  Walk([](const Case& c, const Model& model) {
    const auto length = static_cast<int64_t>(c.prompt.size());
    for (const Form form : kForms) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        SCOPED_TRACE(testing::Message() << FormName(form) << ", cuts " << seed);
        const std::vector<int64_t> cuts =
            seed == 0 ? std::vector<int64_t>{0, length} : RandomCuts(length, seed);
        SequenceState state = model.NewState();
        const Outputs run = Feed(model, state, c.prompt, cuts, form);
        EXPECT_EQ(state.position, length);
        EXPECT_LE(MaxDifference(run.logits, c.expected.at("logits").values), c.tolerance);
        std::vector<float> hidden_states;
        for (const std::vector<float>& layer : run.hidden_states) {
          hidden_states.insert(hidden_states.end(), layer.begin(), layer.end());
        }
        EXPECT_LE(MaxDifference(hidden_states, c.expected.at("hidden_states").values), c.tolerance);
      }
    }
  });
}

TEST_F(ConformanceTest, GreedyContinuationIsTheSame) {
  Walk([](const Case& c, const Model& model) {
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      SequenceState state = model.NewState();
      Outputs run = Feed(model, state, c.prompt, form);
      std::vector<int32_t> ids;
      std::vector<float> logits;
      while (ids.size() < c.greedy.size()) {
        const auto last = std::span(run.logits).last(model.info().vocab_size);
        ids.push_back(
            static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
        run = Feed(model, state, std::span(ids).last(1), form);
        logits.insert(logits.end(), run.logits.begin(), run.logits.end());
      }
      EXPECT_EQ(ids, c.greedy);
      EXPECT_LE(MaxDifference(logits, c.expected.at("greedy_logits").values), c.tolerance);
    }
  });
}

// The expected tensors of a layer, "state.layers.N.…", are in the order of our blocks.
TEST_F(ConformanceTest, StatesAgreeAfterThePrompt) {
  Walk([](const Case& c, const Model& model) {
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      SequenceState state = model.NewState();
      Feed(model, state, c.prompt, RandomCuts(static_cast<int64_t>(c.prompt.size()), 3), form);
      auto block = model.state_blocks().begin();
      for (const auto& [name, tensor] : c.expected) {
        if (!name.starts_with("state.")) continue;
        ASSERT_NE(block, model.state_blocks().end()) << name << " has no block";
        const std::string layer = block->name.substr(0, block->name.find('.', 7));
        EXPECT_TRUE(name.starts_with("state." + layer + ".")) << name << " is not " << block->name;
        const auto ours = state.fixed.span().subspan(block->offset, tensor.values.size());
        EXPECT_LE(MaxDifference(ours, tensor.values), kStateTolerance * MaxAbs(tensor.values))
            << name;
        ++block;
      }
      EXPECT_EQ(block, model.state_blocks().end()) << block->name << " is not expected";
    }
  });
}

}  // namespace
}  // namespace fermata
