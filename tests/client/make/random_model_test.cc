#include "client/make/random_model.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "client/make/vocabulary.h"
#include "engine/base/config_reader.h"
#include "engine/formats/half.h"
#include "engine/model/model.h"
#include "engine/model/random_weights.h"
#include "engine/model/self_check.h"
#include "engine/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files.h"

namespace fermata::make {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Shape kSmall = {.num_layers = 2, .hidden_size = 128, .vocab_size = 700};

absl::StatusOr<RandomModel> Write(RandomModelOptions options) {
  if (options.family == nullptr) options.family = FindFamily("rwkv7");
  if (options.shape.num_layers == 0) options.shape = kSmall;
  return WriteRandomModel(options, [](int64_t, int64_t) {});
}

class FamilyTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FamilyTest, LoadsWithNothingToRemark) {
  const TempDir directory;
  const std::string path = directory.path() / "model";
  const auto written = Write({.directory = path, .family = FindFamily(GetParam())});
  ASSERT_TRUE(written.ok()) << written.status();
  const auto model = Model::Load(path);
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelInfo& info = (*model)->info();
  EXPECT_EQ(info.family, GetParam());
  EXPECT_EQ(info.num_layers, kSmall.num_layers);
  EXPECT_EQ(info.hidden_size, kSmall.hidden_size);
  EXPECT_EQ(info.vocab_size, kSmall.vocab_size);
  EXPECT_EQ(info.weights_dtype, "BF16");
  EXPECT_EQ(info.parameters, written->parameters);
  // Every field is read, and every tensor used.
  EXPECT_THAT(info.remarks, IsEmpty());
}

TEST_P(FamilyTest, ComputesInASaneRange) {
  const TempDir directory;
  ASSERT_TRUE(Write({.directory = directory.path(), .family = FindFamily(GetParam())}).ok());
  const auto model = Model::Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  for (const FormDifference& form : CompareForms(**model, 150, 1)) EXPECT_LT(form.largest, 1e-3);
  SequenceState state = (*model)->NewState();
  Model::Workspace workspace;
  std::vector<int32_t> tokens(200);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7919 % 700);
  const SequenceStep step = {.tokens = tokens, .state = &state};
  double square = 0;
  const auto logits = (*model)->Forward({&step, 1}, Form::kRecurrent, workspace);
  for (const float logit : logits) square += static_cast<double>(logit) * logit;
  // A head of variance 1/hidden on a normalised row gives logits of about variance 1.
  EXPECT_GT(square / static_cast<double>(logits.size()), 0.3);
  EXPECT_LT(square / static_cast<double>(logits.size()), 3);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Family& family : Families()) names.emplace_back(family.name);
                           return names;
                         }()));

TEST(RandomModelTest, StoresWhatIsDrawnRounded) {
  for (const auto& [dtype, name, bits] :
       {std::tuple{DType::kF32, "F32", 24}, std::tuple{DType::kBf16, "BF16", 8},
        std::tuple{DType::kF16, "F16", 11}}) {
    const TempDir directory;
    ASSERT_TRUE(Write({.directory = directory.path(), .dtype = dtype, .seed = 5}).ok());
    for (const FileTensor& tensor : ReadTensors(directory.path() / "model.safetensors")) {
      ASSERT_EQ(tensor.dtype, name);
      if (tensor.name != "model.layers.1.attn.r_proj.weight") continue;
      std::vector<float> drawn(128 * 128);
      DrawTensor(5, tensor.name, tensor.shape, drawn);
      for (size_t i = 0; i < drawn.size(); ++i) {
        float stored = 0;
        uint16_t half = 0;
        std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
        if (dtype == DType::kF32) std::memcpy(&stored, tensor.bytes.data() + 4 * i, 4);
        if (dtype == DType::kBf16) stored = std::bit_cast<float>(uint32_t{half} << 16);
        if (dtype == DType::kF16) stored = HalfToFloat(half);
        // Half a unit in the last place of so many bits; of F16's denormals, half of 2^-24.
        const double unit = std::ldexp(std::abs(drawn[i]), -bits) + 0x1p-25;
        ASSERT_NEAR(stored, drawn[i], dtype == DType::kF32 ? 0 : unit) << name << " " << i;
      }
    }
  }
}

TEST(RandomModelTest, TheSeedDecides) {
  const TempDir a, b, c;
  ASSERT_TRUE(Write({.directory = a.path(), .seed = 1}).ok());
  ASSERT_TRUE(Write({.directory = b.path(), .seed = 1}).ok());
  ASSERT_TRUE(Write({.directory = c.path(), .seed = 2}).ok());
  const std::string weights = ReadBytes(a.path() / "model.safetensors");
  EXPECT_EQ(weights, ReadBytes(b.path() / "model.safetensors"));
  EXPECT_NE(weights, ReadBytes(c.path() / "model.safetensors"));
}

TEST(RandomModelTest, RefusesADirectoryThatIsNotEmpty) {
  const TempDir directory;
  directory.Write("notes.txt", "mine");
  const auto written = Write({.directory = directory.path()});
  EXPECT_TRUE(absl::IsAlreadyExists(written.status()));
  EXPECT_THAT(std::string(written.status().message()), HasSubstr(directory.path().string()));
  EXPECT_EQ(ReadBytes(directory.path() / "notes.txt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "config.json"));
}

TEST(RandomModelTest, RefusesWhatCanNotBe) {
  const TempDir directory;
  for (const auto& [shape, name] :
       {std::pair{Shape{2, 128, 255}, "vocabulary"}, std::pair{Shape{2, 65, 256}, "head_dim"}}) {
    const auto written = Write({.directory = directory.path() / "none", .shape = shape});
    EXPECT_TRUE(absl::IsInvalidArgument(written.status()));
    EXPECT_THAT(std::string(written.status().message()), HasSubstr(name));
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "none"));
  }
}

int64_t Parameters(const Shape& shape) {
  ConfigReader config(MakeConfig(*FindFamily("rwkv7"), shape), "config.json");
  const auto tensors = ListTensors(config);
  int64_t count = 0;
  for (const auto& [name, extents] : *tensors) {
    int64_t size = 1;
    for (const int64_t extent : extents) size *= extent;
    count += size;
  }
  return count;
}

// As the RWKV-7 paper counts them (Peng et al., arXiv 2503.14456, table of released models). Counted
// from models of one and two layers and a small vocabulary, which take less memory.
TEST(FamiliesTest, PresetsHaveThePublishedParameters) {
  for (const auto& [name, published] :
       {std::pair{"0.1b", 191'034'624}, {"0.4b", 450'767'872}, {"1.5b", 1'527'404'544}}) {
    const Shape shape = FindPreset(name)->shape;
    const int64_t one = Parameters({1, shape.hidden_size, 256});
    const int64_t layer = Parameters({2, shape.hidden_size, 256}) - one;
    EXPECT_EQ(
        one + (shape.num_layers - 1) * layer + 2 * (shape.vocab_size - 256) * shape.hidden_size,
        published)
        << name;
  }
}

TEST(VocabularyTest, HoldsEveryByteAndWords) {
  for (const int64_t size : {kMinVocabulary, int64_t{5000}}) {
    const TempDir directory;
    directory.Write("vocab.txt", MakeVocabulary(size));
    const auto tokenizer = Tokenizer::Load(directory.path(), size);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocab_size(), size);
    const std::string text = "Every character: é 漢 \t and words: banana kolibi";
    const std::vector<int32_t> ids = (*tokenizer)->Encode(text, false);
    EXPECT_EQ((*tokenizer)->Decode(ids, true), text);
    // Only a vocabulary of words has tokens of more than a byte.
    EXPECT_EQ(ids.size() < text.size(), size > kMinVocabulary);
  }
}

}  // namespace
}  // namespace fermata::make
