#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"
#include "tests/files.h"

namespace fermata {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

// A model directory before it is written, to be spoilt.
struct Directory {
  nlohmann::json config;
  std::vector<FileTensor> tensors;

  FileTensor& tensor(const std::string& name) {
    for (FileTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::runtime_error("no tensor " + name);
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.name == name; });
  }
  void Write(const TempDir& dir) const {
    dir.Write("config.json", config.dump());
    dir.Write(kWeights, FileBytes(tensors));
  }
};

Directory RightDirectory() {
  const nlohmann::json config = LinearConfigs()[1].config;
  return {config, RandomTensors(config)};
}

absl::StatusOr<std::unique_ptr<Model>> Load(const TempDir& dir) {
  return Model::Load(dir.path().string());
}

// What an observer of the loading of `dir` is told.
std::vector<LoadProgress> ProgressOf(const TempDir& dir) {
  std::vector<LoadProgress> told;
  const auto model =
      Model::Load(dir.path().string(),
                  {.progress = [&](const LoadProgress& progress) { told.push_back(progress); }});
  EXPECT_TRUE(model.ok()) << model.status();
  return told;
}

TEST(LoadTest, TellsHowFarItIs) {
  TempDir dir;
  const Directory directory = RightDirectory();
  directory.Write(dir);
  int64_t bytes = 0;
  for (const FileTensor& tensor : directory.tensors) {
    bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  const auto tensors = static_cast<int64_t>(directory.tensors.size());
  const std::vector<LoadProgress> told = ProgressOf(dir);
  // Before each tensor in both phases, and at the end.
  ASSERT_EQ(told.size(), 2 * directory.tensors.size() + 1);
  for (size_t i = 0; i < told.size(); ++i) {
    const bool hashing = i >= directory.tensors.size();
    EXPECT_EQ(told[i].phase,
              hashing ? LoadProgress::Phase::kFingerprint : LoadProgress::Phase::kWeights);
    EXPECT_EQ(told[i].tensors, tensors);
    EXPECT_EQ(told[i].bytes, bytes);
    EXPECT_EQ(told[i].tensors_done, static_cast<int64_t>(i) - (hashing ? tensors : 0));
    if (told[i].tensors_done == 0) {
      EXPECT_EQ(told[i].share(), 0);
    } else {
      EXPECT_GT(told[i].bytes_done, told[i - 1].bytes_done);
    }
  }
  EXPECT_EQ(told.back().bytes_done, bytes);
  EXPECT_EQ(told.back().share(), 1);
}

TEST(LoadTest, LoadsWhatItWasMadeOf) {
  TempDir dir;
  const Directory directory = RightDirectory();
  directory.Write(dir);
  const auto model = Load(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto made = RandomModel(directory.config);
  EXPECT_EQ((*model)->info().name, dir.path().filename());
  EXPECT_EQ((*model)->info().weights_dtype, "F32");
  EXPECT_THAT((*model)->info().remarks, ElementsAre());
  EXPECT_EQ((*model)->info().parameters, made->info().parameters);
  const auto tokens = RandomTokens(20, made->info().vocab_size, 1);
  SequenceState a = (*model)->NewState();
  SequenceState b = made->NewState();
  EXPECT_TRUE(SameBits(Feed(**model, a, tokens, Form::kRecurrent).logits,
                       Feed(*made, b, tokens, Form::kRecurrent).logits));
}

TEST(LoadTest, ShardsAreTheSameModel) {
  const Directory directory = RightDirectory();
  TempDir one;
  TempDir two;
  directory.Write(one);
  std::vector<FileTensor> shards[3];
  nlohmann::json map;
  for (size_t i = 0; i < directory.tensors.size(); ++i) {
    shards[i % 3].push_back(directory.tensors[i]);
    map[directory.tensors[i].name] = "part-" + std::to_string(i % 3) + ".safetensors";
  }
  for (size_t i = 0; i < 3; ++i) {
    two.Write("part-" + std::to_string(i) + ".safetensors", FileBytes(shards[i]));
  }
  two.Write(kIndex, nlohmann::json{{"weight_map", map}}.dump());
  // The same fields, written otherwise.
  two.Write("config.json", directory.config.dump(4));
  const auto a = Load(one);
  const auto b = Load(two);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ((*a)->info().fingerprint, (*b)->info().fingerprint);
  const auto tokens = RandomTokens(20, 40, 1);
  SequenceState state_a = (*a)->NewState();
  SequenceState state_b = (*b)->NewState();
  EXPECT_TRUE(SameBits(Feed(**a, state_a, tokens, Form::kRecurrent).logits,
                       Feed(**b, state_b, tokens, Form::kRecurrent).logits));
}

TEST(LoadTest, RemarksNameWhatIsNotUsed) {
  TempDir dir;
  Directory directory = RightDirectory();
  directory.config["rope_scaling"] = 2;
  directory.tensors.push_back(F32Tensor("model.layers.2.attn.extra", {2}, {1, NAN}));
  directory.Write(dir);
  const auto model = Load(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->info().remarks,
              ElementsAre(HasSubstr("\"rope_scaling\" is not read"),
                          "1 tensor is not used: \"model.layers.2.attn.extra\""));
}

TEST(LoadTest, ManyUnusedTensorsAreOneRemark) {
  TempDir dir;
  Directory directory = RightDirectory();
  for (int i = 0; i < 100; ++i) {
    directory.tensors.push_back(F32Tensor("unused." + std::to_string(i), {1}, {1}));
  }
  directory.Write(dir);
  const auto model = Load(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->info().remarks,
              ElementsAre(AllOf(HasSubstr("100 tensors are not used: \"unused.0\""),
                                HasSubstr("and 92 more"))));
}

TEST(LoadTest, AHeadThatIsLeftOutIsTheEmbeddings) {
  Directory directory = RightDirectory();
  directory.tensor("lm_head.weight").bytes = directory.tensor("model.embeddings.weight").bytes;
  TempDir stored;
  directory.Write(stored);
  directory.Remove("lm_head.weight");
  TempDir absent;
  directory.Write(absent);
  directory.config["tie_word_embeddings"] = true;
  TempDir tied;
  directory.Write(tied);
  std::vector<std::vector<float>> logits;
  for (const TempDir* dir : {&stored, &absent, &tied}) {
    const auto model = Load(*dir);
    ASSERT_TRUE(model.ok()) << model.status();
    SequenceState state = (*model)->NewState();
    logits.push_back(Feed(**model, state, RandomTokens(5, 40, 1), Form::kRecurrent).logits);
  }
  EXPECT_TRUE(SameBits(logits[0], logits[1]));
  EXPECT_TRUE(SameBits(logits[0], logits[2]));
}

TEST(LoadTest, EveryBrokenDirectoryIsOneLineThatNamesTheCulprit) {
  const struct {
    std::string why;  // Substring of the error.
    std::function<void(Directory&)> spoil;
  } cases[] = {
      {"config.json: model_type: missing", [](Directory& d) { d.config.erase("model_type"); }},
      {"config.json: model_type: \"gpt17\" is not known; known are linear_attn, ",
       [](Directory& d) { d.config["model_type"] = "gpt17"; }},
      {"config.json: model_type: not a string", [](Directory& d) { d.config["model_type"] = 3; }},
      {"config.json: hidden_size: missing", [](Directory& d) { d.config.erase("hidden_size"); }},
      {"config.json: hidden_size: -24 is outside",
       [](Directory& d) { d.config["hidden_size"] = -24; }},
      {"config.json: hidden_size: 1152921504606846976 is outside",
       [](Directory& d) { d.config["hidden_size"] = int64_t{1} << 60; }},
      {"config.json: hidden_size: not an integer",
       [](Directory& d) { d.config["hidden_size"] = "24"; }},
      {"config.json: vocab_size: 0 is outside", [](Directory& d) { d.config["vocab_size"] = 0; }},
      {"config.json: num_hidden_layers: -1 is outside",
       [](Directory& d) { d.config["num_hidden_layers"] = -1; }},
      {"config.json: num_heads: 0 is outside", [](Directory& d) { d.config["num_heads"] = 0; }},
      {"num_heads", [](Directory& d) { d.config["num_heads"] = 5; }},
      {"config.json: norm_eps", [](Directory& d) { d.config["norm_eps"] = -1; }},
      {"config.json: decay",
       [](Directory& d) {
         d.config["decay"] = {0.5, 0.5};
       }},
      {"config.json: decay",
       [](Directory& d) {
         d.config["decay"] = {0.5, 0.5, 1.5};
       }},
      {"no_such_map", [](Directory& d) { d.config["feature_map"] = "no_such_map"; }},
      {"config.json: hidden_act", [](Directory& d) { d.config["hidden_act"] = "gelu"; }},
      {"config.json: eos_token_id: 40 is outside [0, 39]",
       [](Directory& d) {
         d.config["eos_token_id"] = {2, 40};
       }},
      {"config.json: bos_token_id: -1 is outside",
       [](Directory& d) { d.config["bos_token_id"] = -1; }},
      {"config.json: tie_word_embeddings: not a boolean",
       [](Directory& d) { d.config["tie_word_embeddings"] = 1; }},
      {"config.json: attn: not an object", [](Directory& d) { d.config["attn"] = 1; }},
      {"config.json: attn: layers: 2 is outside [0, 1]",
       [](Directory& d) {
         d.config["attn"] = {{"layers", {2}}, {"num_heads", 2}};
       }},
      {"config.json: attn: layers: missing",
       [](Directory& d) {
         d.config["attn"] = {{"num_heads", 2}};
       }},
      {"config.json: attn: num_heads: missing",
       [](Directory& d) {
         d.config["attn"] = {{"layers", {1}}};
       }},
      {"tensor \"model.embeddings.weight\": shape [40, 24], wanted [48, 24]",
       [](Directory& d) { d.config["vocab_size"] = 48; }},
      {"tensor \"model.embeddings.weight\": shape [40, 24], wanted [40, 27]",
       [](Directory& d) { d.config["hidden_size"] = 27; }},
      {"tensor \"model.layers.2.attn_norm.weight\" of shape [24] is missing",
       [](Directory& d) { d.config["num_hidden_layers"] = 3; }},
      {"tensor \"model.layers.1.mlp_norm.weight\" of shape [24] is missing",
       [](Directory& d) { d.Remove("model.layers.1.mlp_norm.weight"); }},
      {"tensor \"model.layers.0.attn.k_proj.weight\" of shape [24, 24] is missing",
       [](Directory& d) { d.Remove("model.layers.0.attn.k_proj.weight"); }},
      {"tensor \"model.norm.weight\" of shape [24] is missing",
       [](Directory& d) { d.Remove("model.norm.weight"); }},
      {"tensor \"lm_head.weight\" of shape [40, 24] is missing",
       [](Directory& d) {
         d.config["tie_word_embeddings"] = false;
         d.Remove("lm_head.weight");
       }},
      {"tensor \"model.layers.0.mlp.down_proj.weight\": shape [48, 24], wanted [24, 48]",
       [](Directory& d) {
         std::swap(d.tensor("model.layers.0.mlp.down_proj.weight").shape[0],
                   d.tensor("model.layers.0.mlp.down_proj.weight").shape[1]);
       }},
      {"tensor \"model.norm.weight\": type \"I32\", wanted F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K "
       "or Q6_K",
       [](Directory& d) { d.tensor("model.norm.weight").dtype = "I32"; }},
      {"tensor \"lm_head.weight\": value 959 is not a finite number",
       [](Directory& d) {
         d.tensor("lm_head.weight").bytes.replace(959 * 4, 4, std::string("\0\0\xc0\x7f", 4));
       }},
  };
  for (const auto& [why, spoil] : cases) {
    TempDir dir;
    Directory directory = RightDirectory();
    spoil(directory);
    directory.Write(dir);
    const absl::Status status = Load(dir).status();
    EXPECT_THAT(status.code(),
                AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir.path().string()));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  }
}

TEST(LoadTest, EveryBrokenFileOfADirectoryIsAnError) {
  const struct {
    std::string why;
    std::function<void(const TempDir&)> spoil;
  } cases[] = {
      {"config.json",
       [](const TempDir& dir) { std::filesystem::remove(dir.path() / "config.json"); }},
      {"config.json: not valid JSON", [](const TempDir& dir) { dir.Write("config.json", ""); }},
      {"config.json: not valid JSON",
       [](const TempDir& dir) { dir.Write("config.json", "{\"a\""); }},
      {"config.json: not a JSON object",
       [](const TempDir& dir) { dir.Write("config.json", "[]"); }},
      {"config.json: JSON nested deeper",
       [](const TempDir& dir) { dir.Write("config.json", std::string(1'000'000, '[')); }},
      {"config.json: the key \"a\" stands twice",
       [](const TempDir& dir) { dir.Write("config.json", R"({"a": 1, "a": 2})"); }},
      {"no model.safetensors",
       [](const TempDir& dir) { std::filesystem::remove(dir.path() / kWeights); }},
      {"model.safetensors: truncated: 0 bytes",
       [](const TempDir& dir) { dir.Write(kWeights, ""); }},
      {"model.safetensors: tensor",
       [](const TempDir& dir) {
         const std::string bytes = ReadBytes(dir.path() / kWeights);
         dir.Write(kWeights, std::string_view(bytes).substr(0, bytes.size() - 1));
       }},
      {"model.safetensors: 1 bytes after the last tensor",
       [](const TempDir& dir) { dir.Write(kWeights, ReadBytes(dir.path() / kWeights) + "x"); }},
      {"model.safetensors: not a regular file",
       [](const TempDir& dir) {
         std::filesystem::remove(dir.path() / kWeights);
         std::filesystem::create_directory(dir.path() / kWeights);
       }},
      {"part-1.safetensors",
       [](const TempDir& dir) {
         std::filesystem::rename(dir.path() / kWeights, dir.path() / "part-0.safetensors");
         dir.Write(kIndex, R"({"weight_map": {"lm_head.weight": "part-0.safetensors",
                                              "more": "part-1.safetensors"}})");
       }},
  };
  for (const auto& [why, spoil] : cases) {
    TempDir dir;
    RightDirectory().Write(dir);
    spoil(dir);
    const absl::Status status = Load(dir).status();
    EXPECT_FALSE(status.ok()) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  }
  EXPECT_EQ(Model::Load("/no/such/place").status().code(), absl::StatusCode::kNotFound);
}

// A directory with a few bytes changed is refused, or is a model that runs.
TEST(LoadTest, SurvivesMutations) {
  TempDir dir;
  const Directory directory = RightDirectory();
  directory.Write(dir);
  const std::string config = directory.config.dump();
  const std::string weights = FileBytes(directory.tensors);
  const size_t header = weights.size() - 4 * 1000;
  std::mt19937_64 random(20240608);
  int refused = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const bool spoil_config = round % 2 == 0;
    std::string bytes = spoil_config ? config : weights;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % (spoil_config ? bytes.size() : header);
      bytes[at] = round % 3 == 0 ? static_cast<char>(random())
                                 : static_cast<char>(bytes[at] ^ (1 << random() % 8));
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    dir.Write(spoil_config ? "config.json" : kWeights, bytes);
    const auto model = Load(dir);
    if (model.ok()) {
      SequenceState state = (*model)->NewState();
      const auto tokens = RandomTokens(3, (*model)->info().vocab_size, 1);
      Feed(**model, state, tokens, Form::kChunkwise);
    } else {
      ++refused;
    }
    dir.Write(spoil_config ? "config.json" : kWeights, spoil_config ? config : weights);
  }
  EXPECT_GT(refused, kRounds / 4);
  EXPECT_LT(refused, kRounds);
}

}  // namespace
}  // namespace fermata
