#include "engine/model/model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLength = 150;  // More than two chunks.

// Runs `check(model)` on a random model of each config.
template <typename Check>
void Walk(const std::vector<NamedConfig>& configs, Check check) {
  for (const NamedConfig& named : configs) {
    SCOPED_TRACE(named.name);
    check(*RandomModel(named.config));
  }
}

TEST(ModelTest, FormsAgreeAtRandomCuts) {
  Walk(AllConfigs(), [](const Model& model) {
    const auto tokens = RandomTokens(kLength, model.info().vocab_size, 1);
    SequenceState whole = model.NewState();
    const Outputs expected = Feed(model, whole, tokens, Form::kParallel);
    ASSERT_GT(MaxAbs(expected.logits), 0.1);
    for (const Form form : kForms) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(testing::Message() << FormName(form) << ", cuts " << seed);
        SequenceState state = model.NewState();
        const Outputs run = Feed(model, state, tokens, RandomCuts(kLength, seed), form);
        EXPECT_LE(MaxDifference(run.logits, expected.logits), 1e-4 * MaxAbs(expected.logits));
        EXPECT_LE(MaxDifference(state.fixed.span(), whole.fixed.span()),
                  1e-4 * (MaxAbs(whole.fixed.span()) + 1e-30));
        EXPECT_EQ(state.position, kLength);
      }
    }
  });
}

TEST(ModelTest, RecurrentFormGivesTheSameBitsHoweverItIsCut) {
  Walk(AllConfigs(), [](const Model& model) {
    const auto tokens = RandomTokens(kLength, model.info().vocab_size, 2);
    SequenceState whole = model.NewState();
    const Outputs expected = Feed(model, whole, tokens, Form::kRecurrent);
    std::vector<int64_t> every(kLength + 1);
    for (int64_t i = 0; i <= kLength; ++i) every[i] = i;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SequenceState state = model.NewState();
      const auto cuts = seed == 0 ? every : RandomCuts(kLength, seed);
      const Outputs run = Feed(model, state, tokens, cuts, Form::kRecurrent);
      EXPECT_TRUE(SameBits(run.logits, expected.logits)) << seed;
      EXPECT_TRUE(SameBits(state, whole)) << seed;
    }
  });
}

TEST(ModelTest, ChunkwiseFormGivesTheSameBitsWhenCutAtChunks) {
  Walk(AllConfigs(), [](const Model& model) {
    const auto tokens = RandomTokens(3 * kChunkTokens + 5, model.info().vocab_size, 3);
    const auto length = static_cast<int64_t>(tokens.size());
    SequenceState whole = model.NewState();
    const Outputs expected = Feed(model, whole, tokens, Form::kChunkwise);
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, kChunkTokens, length},
          {0, 2 * kChunkTokens, length},
          {0, kChunkTokens, 2 * kChunkTokens, 3 * kChunkTokens, length}}) {
      SequenceState state = model.NewState();
      const Outputs run = Feed(model, state, tokens, cuts, Form::kChunkwise);
      EXPECT_TRUE(SameBits(run.logits, expected.logits));
      EXPECT_TRUE(SameBits(state, whole));
    }
  });
}

// A sequence among others at other positions, with other lengths and other wishes.
TEST(ModelTest, NeighboursInTheBatchChangeNoBit) {
  constexpr int64_t kCounts[] = {1, 7, 1, 80, 3, 1, 66};
  Walk(AllConfigs(), [&](const Model& model) {
    const int64_t vocab = model.info().vocab_size;
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      std::vector<SequenceState> states;
      std::vector<std::vector<int32_t>> tokens;
      std::vector<SequenceStep> steps;
      for (size_t i = 0; i < std::size(kCounts); ++i) {
        states.push_back(model.NewState());
        const auto history = RandomTokens(static_cast<int64_t>(i) * 5, vocab, 10 + i);
        if (i > 0) Feed(model, states.back(), history, Form::kRecurrent);
        tokens.push_back(RandomTokens(kCounts[i], vocab, 20 + i));
      }
      std::vector<float> expected;
      std::vector<SequenceState> expected_states;
      for (size_t i = 0; i < states.size(); ++i) {
        expected_states.push_back(Fork(states[i]));
        const Outputs alone = Feed(model, expected_states.back(), tokens[i], form);
        const auto wish = static_cast<SequenceStep::Logits>(i % 3);
        const int64_t rows = wish == SequenceStep::Logits::kNone   ? 0
                             : wish == SequenceStep::Logits::kLast ? 1
                                                                   : kCounts[i];
        expected.insert(expected.end(), alone.logits.end() - rows * vocab, alone.logits.end());
        steps.push_back({.tokens = tokens[i], .state = &states[i], .logits = wish});
      }
      Model::Workspace workspace;
      const auto logits = model.Forward(steps, form, workspace);
      EXPECT_TRUE(SameBits(logits, expected));
      for (size_t i = 0; i < states.size(); ++i) {
        EXPECT_TRUE(SameBits(states[i], expected_states[i])) << i;
      }
    }
  });
}

TEST(ModelTest, TheNumberOfThreadsChangesNoBit) {
  const int before = ComputeThreads();
  nlohmann::json wide = LinearConfigs()[2].config;  // Enough work for several threads.
  wide.update({{"hidden_size", 192}, {"intermediate_size", 512}, {"vocab_size", 1000}});
  const auto model = RandomModel(wide);
  const auto tokens = RandomTokens(kLength, 1000, 13);
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    std::vector<Outputs> outputs;
    for (const int threads : {1, 2, 5}) {
      SetComputeThreads(threads, 1);
      SequenceState state = model->NewState();
      outputs.push_back(Feed(*model, state, tokens, form));
      EXPECT_TRUE(SameBits(outputs.front().logits, outputs.back().logits)) << threads;
    }
  }
  SetComputeThreads(before);
}

TEST(ModelTest, AForkIsIndependent) {
  Walk(AllConfigs(), [](const Model& model) {
    const int64_t vocab = model.info().vocab_size;
    const auto history = RandomTokens(20, vocab, 4);
    SequenceState state = model.NewState();
    Feed(model, state, history, Form::kRecurrent);
    SequenceState fork = Fork(state);
    const SequenceState before = Fork(state);
    const auto other = RandomTokens(9, vocab, 5);
    Feed(model, fork, other, Form::kRecurrent);
    EXPECT_TRUE(SameBits(state, before));
    SequenceState again = Fork(before);
    const auto next = RandomTokens(9, vocab, 6);
    EXPECT_TRUE(SameBits(Feed(model, state, next, Form::kRecurrent).logits,
                         Feed(model, again, next, Form::kRecurrent).logits));
    EXPECT_TRUE(SameBits(state, again));
  });
}

TEST(ModelTest, AClearedStateIsNew) {
  Walk(AllConfigs(), [](const Model& model) {
    const auto tokens = RandomTokens(30, model.info().vocab_size, 7);
    SequenceState state = model.NewState();
    Feed(model, state, tokens, Form::kRecurrent);
    state.Clear();
    EXPECT_TRUE(SameBits(state, model.NewState()));
    SequenceState fresh = model.NewState();
    EXPECT_TRUE(SameBits(Feed(model, state, tokens, Form::kRecurrent).logits,
                         Feed(model, fresh, tokens, Form::kRecurrent).logits));
  });
}

TEST(ModelTest, AWorkspaceCarriesNothingFromOnePassToTheNext) {
  Walk(AllConfigs(), [](const Model& model) {
    const int64_t vocab = model.info().vocab_size;
    const auto tokens = RandomTokens(30, vocab, 8);
    SequenceState expected_state = model.NewState();
    const Outputs expected = Feed(model, expected_state, tokens, Form::kChunkwise);
    Model::Workspace used;
    const auto other = RandomTokens(100, vocab, 9);
    for (const Form form : kForms) {
      SequenceState state = model.NewState();
      const SequenceStep step = {other, &state, SequenceStep::Logits::kAll};
      model.Forward({&step, 1}, form, used);
    }
    SequenceState state = model.NewState();
    const SequenceStep step = {tokens, &state, SequenceStep::Logits::kAll};
    EXPECT_TRUE(SameBits(model.Forward({&step, 1}, Form::kChunkwise, used), expected.logits));
    EXPECT_TRUE(model.Forward({}, Form::kChunkwise, used).empty());
  });
}

TEST(ModelTest, TheStateOfALinearModelNeverGrows) {
  Walk(LinearConfigs(), [](const Model& model) {
    EXPECT_TRUE(model.info().fixed_size_state);
    SequenceState state = model.NewState();
    for (const int64_t count : {1, 3000}) {
      Feed(model, state, RandomTokens(count, model.info().vocab_size, 10), Form::kChunkwise);
      EXPECT_EQ(static_cast<int64_t>(state.fixed.bytes()), model.info().state_bytes);
      EXPECT_EQ(state.cache_bytes(), 0);
    }
    EXPECT_EQ(state.position, 3001);
  });
}

TEST(ModelTest, BlocksTileTheState) {
  Walk(AllConfigs(), [](const Model& model) {
    int64_t end = 0;
    for (const StateBlockInfo& block : model.state_blocks()) {
      EXPECT_EQ(block.offset, end) << block.name;
      end += StateBlock{block.name, block.shape}.size();
    }
    EXPECT_EQ(end * static_cast<int64_t>(sizeof(float)), model.info().state_bytes);
  });
}

TEST(ModelTest, InfoFollowsFromTheConfig) {
  const auto model = RandomModel(LinearConfigs()[1].config);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.family, "linear_attn");
  EXPECT_EQ(info.num_layers, 2);
  EXPECT_EQ(info.hidden_size, 24);
  EXPECT_EQ(info.vocab_size, 40);
  EXPECT_THAT(info.bos_token_ids, ElementsAre(1));
  EXPECT_THAT(info.eos_token_ids, ElementsAre(2, 3));
  // Embeddings and head; final norm; per layer two norms, q, k, v, o, the heads' norm, the MLP.
  EXPECT_EQ(info.parameters, 2 * 40 * 24 + 24 + 2 * (2 * 24 + 4 * 24 * 24 + 8 + 3 * 24 * 48));
  // S and z of each head of size 8.
  EXPECT_EQ(info.state_bytes, 2 * 3 * (8 * 8 + 8) * 4);
  EXPECT_EQ(model->state_blocks().front().name, "layers.0.attn.S");
  EXPECT_THAT(model->state_blocks().front().shape, ElementsAre(3, 8, 8));
  EXPECT_EQ(info.kv_equivalent_bytes_per_token, 2 * 2 * 24 * 4);
  EXPECT_THAT(info.remarks, ElementsAre());
}

// What the linear model is said to save is what the softmax model of its shape holds.
TEST(ModelTest, KvEquivalentIsWhatSoftmaxAttentionHolds) {
  for (const int64_t kv_heads : {1, 3}) {
    nlohmann::json config = LinearConfigs()[0].config;
    config["num_kv_heads"] = kv_heads;
    const auto linear = RandomModel(config);
    config["model_type"] = "transformer";
    const auto softmax = RandomModel(config);
    EXPECT_FALSE(softmax->info().fixed_size_state);
    EXPECT_EQ(softmax->info().kv_equivalent_bytes_per_token,
              linear->info().kv_equivalent_bytes_per_token);
    SequenceState state = softmax->NewState();
    for (const int64_t count : {1, 1, 29, 100}) {
      Feed(*softmax, state, RandomTokens(count, 40, 11), Form::kRecurrent);
      EXPECT_EQ(state.cache_bytes(), linear->info().kv_equivalent_bytes_per_token * state.position);
    }
  }
}

// The fields of flash-linear-attention's TransformerConfig, with its defaults where size allows.
TEST(ModelTest, APublishedTransformerConfigLeavesNothingUnread) {
  const nlohmann::json config = {{"model_type", "transformer"},
                                 {"architectures", {"TransformerForCausalLM"}},
                                 {"hidden_size", 32},
                                 {"num_hidden_layers", 2},
                                 {"num_heads", 4},
                                 {"num_kv_heads", nullptr},
                                 {"qkv_bias", false},
                                 {"qk_norm", false},
                                 {"window_size", nullptr},
                                 {"rope_theta", 10000.0},
                                 {"max_position_embeddings", 2048},
                                 {"hidden_ratio", 4},
                                 {"intermediate_size", nullptr},
                                 {"hidden_act", "swish"},
                                 {"initializer_range", 0.02},
                                 {"elementwise_affine", true},
                                 {"norm_eps", 1e-6},
                                 {"use_cache", true},
                                 {"pad_token_id", nullptr},
                                 {"bos_token_id", 1},
                                 {"eos_token_id", 2},
                                 {"tie_word_embeddings", false},
                                 {"fuse_norm", true},
                                 {"fuse_swiglu", true},
                                 {"fuse_cross_entropy", true},
                                 {"fuse_linear_cross_entropy", false},
                                 {"use_l2warp", false},
                                 {"vocab_size", 50},
                                 {"torch_dtype", "float32"},
                                 {"transformers_version", "4.48.0"}};
  EXPECT_THAT(RandomModel(config)->info().remarks, ElementsAre());
}

// With the identity map, k = (a, a, …) and q = (b, -b, …) in each head, every denominator vanishes.
TEST(ModelTest, EveryClampedDenominatorIsCounted) {
  nlohmann::json config = LinearConfigs()[1].config;
  config["feature_map"] = "identity";
  RandomWeights weights(1);
  std::vector<float> k(24 * 24);
  std::vector<float> q(24 * 24);
  for (int64_t row = 0; row < 24; ++row) {
    for (int64_t column = 0; column < 24; ++column) {
      k[row * 24 + column] = 0.1f * static_cast<float>(1 + (row / 8 + column) % 5);
      q[row * 24 + column] = row % 2 == 0 ? k[row * 24 + column] : -k[row * 24 + column];
    }
  }
  for (const char* layer : {"model.layers.0.attn.", "model.layers.1.attn."}) {
    weights.Set(std::string(layer) + "k_proj.weight", k);
    weights.Set(std::string(layer) + "q_proj.weight", q);
  }
  ConfigReader reader(config, "config.json");
  const auto model = Model::Create(reader, weights);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Model::Workspace workspace;
    SequenceState state = (*model)->NewState();
    const auto tokens = RandomTokens(7, 40, 1);
    const SequenceStep step = {tokens, &state, SequenceStep::Logits::kNone};
    EXPECT_TRUE((*model)->Forward({&step, 1}, form, workspace).empty());
    EXPECT_EQ(workspace.counters.denominator_clamps, 7 * 3 * 2);  // Tokens, heads, layers.
  }
}

TEST(ModelTest, AHybridHoldsBoth) {
  const auto model = RandomModel(AllConfigs()[3].config);
  EXPECT_FALSE(model->info().fixed_size_state);
  // Layer 0: linear, 3 heads of 8; layer 1: softmax, 1 head of 12 for k and v.
  EXPECT_EQ(model->info().state_bytes, 3 * 8 * 8 * 4);
  EXPECT_EQ(model->info().kv_equivalent_bytes_per_token, (2 * 24 + 2 * 12) * 4);
  SequenceState state = model->NewState();
  Feed(*model, state, RandomTokens(10, 40, 12), Form::kRecurrent);
  EXPECT_EQ(state.cache_bytes(), 10 * 2 * 12 * 4);
}

TEST(ModelTest, ATiedHeadIsTheEmbeddings) {
  nlohmann::json config = LinearConfigs()[0].config;
  const auto untied = RandomModel(config);
  config["tie_word_embeddings"] = true;
  const auto tied = RandomModel(config);
  EXPECT_EQ(untied->info().parameters - tied->info().parameters, 40 * 24);
}

}  // namespace
}  // namespace fermata
