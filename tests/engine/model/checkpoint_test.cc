#include "engine/model/checkpoint.h"

#include <array>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files.h"
#include "tests/gguf_file.h"
#include "tests/torch_file.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr std::array<int64_t, 2> k2x3 = {2, 3};
constexpr std::array<int64_t, 1> k4 = {4};

FileTensor A() { return F32Tensor("a", {2, 3}, {1, 2, 3, 4, 5, 6}); }
FileTensor B() { return Bf16Tensor("b", {4}, {0.5, -1, 2, 96}); }

std::vector<float> Values(Checkpoint& checkpoint, std::string_view name,
                          std::span<const int64_t> shape) {
  const auto values = checkpoint.Read(name, shape);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? std::vector<float>(values->begin(), values->end()) : std::vector<float>();
}

void ExpectHoldsBoth(const TempDir& dir) {
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->Unused(), ElementsAre("a", "b"));
  EXPECT_THAT(Values(**checkpoint, "a", k2x3), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ((*checkpoint)->dtype(), "F32");
  EXPECT_THAT((*checkpoint)->Unused(), ElementsAre("b"));
  EXPECT_THAT(Values(**checkpoint, "b", k4), ElementsAre(0.5, -1, 2, 96));
  EXPECT_EQ((*checkpoint)->dtype(), "mixed");
  EXPECT_THAT((*checkpoint)->Unused(), ElementsAre());
  EXPECT_TRUE((*checkpoint)->Has("a"));
  EXPECT_FALSE((*checkpoint)->Has("c"));
}

TEST(CheckpointTest, ReadsOneFile) {
  TempDir dir;
  dir.Write("model.safetensors", FileBytes({A(), B()}));
  ExpectHoldsBoth(dir);
}

TEST(CheckpointTest, ReadsTheOnlyFileWhateverItsName) {
  TempDir dir;
  dir.Write("weights-7B.safetensors", FileBytes({B(), A()}));
  ExpectHoldsBoth(dir);
}

TEST(CheckpointTest, ReadsShards) {
  TempDir dir;
  dir.Write("model-1.safetensors", FileBytes({B()}));
  dir.Write("model-2.safetensors", FileBytes({A()}));
  dir.Write(kIndex, R"({"metadata": {"total_size": 32},
      "weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors"}})");
  ExpectHoldsBoth(dir);
}

// The same tensors in the other formats.
std::string GgufOfBoth() {
  return GgufBytes({.keys = {{"general.architecture", GgufString("rwkv7")}},
                    .tensors = {{"a", 0, {3, 2}, A().bytes, {}}, {"b", 30, {4}, B().bytes, {}}}});
}
TorchTensor TorchA() {
  return {.name = "a", .key = "0", .storage_size = 6, .shape = {2, 3}, .strides = {3, 1}};
}
TorchTensor TorchB() {
  return {.name = "b",
          .storage = "BFloat16Storage",
          .key = "1",
          .storage_size = 4,
          .shape = {4},
          .strides = {1}};
}
std::string TorchOfBoth() {
  return TorchBytes(PickleBytes({TorchA(), TorchB()}), {{"0", A().bytes}, {"1", B().bytes}});
}

TEST(CheckpointTest, ReadsGguf) {
  TempDir dir;
  dir.Write("model-Q4_K_M.gguf", GgufOfBoth());
  ExpectHoldsBoth(dir);
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_NE((*checkpoint)->gguf(), nullptr);
  EXPECT_EQ(*(*checkpoint)->gguf()->String("general.architecture"), "rwkv7");
}

TEST(CheckpointTest, ReadsTorchFiles) {
  for (const char* name : {"pytorch_model.bin", "RWKV-x070.pth"}) {
    TempDir dir;
    dir.Write(name, TorchOfBoth());
    ExpectHoldsBoth(dir);
    EXPECT_EQ((*Checkpoint::Open(dir.path()))->gguf(), nullptr);
  }
}

TEST(CheckpointTest, ReadsTorchShards) {
  TempDir dir;
  dir.Write("pytorch_model-1.bin", TorchBytes(PickleBytes({TorchA()}), {{"0", A().bytes}}));
  dir.Write("pytorch_model-2.bin", TorchBytes(PickleBytes({TorchB()}), {{"1", B().bytes}}));
  dir.Write("pytorch_model.bin.index.json",
            R"({"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}})");
  ExpectHoldsBoth(dir);
}

TEST(CheckpointTest, OpensOneFileByItsPath) {
  TempDir dir;
  dir.Write("1.safetensors", FileBytes({A(), B()}));
  dir.Write("2.safetensors", FileBytes({A(), B()}));
  dir.Write("3.gguf", GgufOfBoth());
  dir.Write("4.pth", TorchOfBoth());
  dir.Write("5.pt", TorchOfBoth());
  dir.Write("6.bin", TorchOfBoth());
  for (const char* name : {"1.safetensors", "2.safetensors", "3.gguf", "4.pth", "5.pt", "6.bin"}) {
    const auto checkpoint = Checkpoint::Open(dir.path() / name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ((*checkpoint)->directory(), dir.path());
    EXPECT_THAT((*checkpoint)->names(), ElementsAre("a", "b"));
    EXPECT_THAT(Values(**checkpoint, "b", k4), ElementsAre(0.5, -1, 2, 96));
  }
  dir.Write("7.onnx", "");
  EXPECT_THAT(std::string(Checkpoint::Open(dir.path() / "7.onnx").status().message()),
              HasSubstr("7.onnx: not a .safetensors, .gguf, .pth, .pt or .bin by its name"));
}

// Each one more that goes before what is there already.
TEST(CheckpointTest, ADirectoryHasAnOrder) {
  TempDir dir;
  const auto holds = [&](const std::string& file, const std::string& name) {
    const auto checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << file << checkpoint.status();
    EXPECT_THAT((*checkpoint)->names(), ElementsAre(name)) << file;
  };
  const auto torch = [](const std::string& name) {
    TorchTensor tensor = TorchA();
    tensor.name = name;
    return TorchBytes(PickleBytes({tensor}), {{"0", A().bytes}});
  };
  const auto safetensors = [](const std::string& name) {
    return FileBytes({F32Tensor(name, {1}, {1})});
  };
  dir.Write("x.pth", torch("x.pth"));
  holds("x.pth", "x.pth");
  dir.Write("shard.bin", torch("shard.bin"));
  dir.Write("pytorch_model.bin.index.json", R"({"weight_map": {"shard.bin": "shard.bin"}})");
  holds("an index of .bin", "shard.bin");
  dir.Write("pytorch_model.bin", torch("one.bin"));
  holds("pytorch_model.bin", "one.bin");
  dir.Write("x.gguf", GgufBytes({.tensors = {{"gguf", 0, {6}, A().bytes, {}}}}));
  holds("x.gguf", "gguf");
  dir.Write("x.safetensors", safetensors("lone"));
  holds("x.safetensors", "lone");
  dir.Write(kIndex, R"({"weight_map": {"lone": "x.safetensors"}})");
  holds("an index of .safetensors", "lone");
  dir.Write("model.safetensors", safetensors("model"));
  holds("model.safetensors", "model");
}

TEST(CheckpointTest, TensorsAreFoundAsTheyAreStored) {
  TempDir dir;
  const std::string blocks(2 * 34, '\0');
  dir.Write("model.gguf", GgufBytes({.tensors = {{"q", 8, {32, 2}, blocks, {}},
                                                 {"old", 6, {32}, std::string(22, '\0'), {}},
                                                 {"f", 0, {6}, A().bytes, {}},
                                                 {"g", 0, {6}, A().bytes, {}}}}));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const StoredTensor* q = (*checkpoint)->Find("q");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->dtype, "Q8_0");
  EXPECT_THAT(q->shape, ElementsAre(2, 32));
  EXPECT_EQ(q->data.size(), blocks.size());
  EXPECT_EQ((*checkpoint)->Find("r"), nullptr);
  EXPECT_THAT((*checkpoint)->dtypes(), ::testing::IsEmpty()) << "finding is not reading";

  Values(**checkpoint, "q", std::array<int64_t, 2>{2, 32});
  EXPECT_EQ((*checkpoint)->dtype(), "Q8_0");
  Values(**checkpoint, "f", std::array<int64_t, 1>{6});
  Values(**checkpoint, "g", std::array<int64_t, 1>{6});
  EXPECT_EQ((*checkpoint)->dtype(), "mixed");
  EXPECT_THAT((*checkpoint)->dtypes(),
              ElementsAre(::testing::Pair("F32", 2), ::testing::Pair("Q8_0", 1)));
  EXPECT_THAT(
      std::string((*checkpoint)->Read("old", std::array<int64_t, 1>{32}).status().message()),
      HasSubstr("model.gguf: tensor \"old\": type \"Q5_0\", wanted F32"));
}

TEST(CheckpointTest, APartOfAGgufIsRefused) {
  TempDir dir;
  dir.Write("x-00001-of-00002.gguf",
            GgufBytes({.keys = {{"split.count", Bytes<uint32_t>(2) + Bytes<uint16_t>(2)}}}));
  EXPECT_THAT(std::string(Checkpoint::Open(dir.path()).status().message()),
              HasSubstr("key \"split.count\": one of 2 parts of a model: merge them"));
}

std::string Fingerprint(const std::vector<FileTensor>& tensors, std::string_view config = "{}") {
  TempDir dir;
  dir.Write("model.safetensors", FileBytes(tensors));
  return (*Checkpoint::Open(dir.path()))->Fingerprint(config);
}

TEST(CheckpointTest, FingerprintIsOfTheContentsAlone) {
  const std::string one = Fingerprint({A(), B()});
  EXPECT_THAT(one, ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(Fingerprint({B(), A()}), one);
  TempDir dir;
  dir.Write("s1.safetensors", FileBytes({A()}));
  dir.Write("s2.safetensors", FileBytes({B()}));
  dir.Write(kIndex, R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  EXPECT_EQ((*Checkpoint::Open(dir.path()))->Fingerprint("{}"), one);
  TempDir other;
  other.Write("x.pth", TorchOfBoth());
  EXPECT_EQ((*Checkpoint::Open(other.path()))->Fingerprint("{}"), one);
}

TEST(CheckpointTest, FingerprintChangesWithAnything) {
  std::set<std::string> seen = {Fingerprint({A(), B()})};
  const auto is_new = [&](const std::vector<FileTensor>& tensors, std::string_view config) {
    return seen.insert(Fingerprint(tensors, config)).second;
  };
  EXPECT_TRUE(is_new({A(), B()}, "{ }"));
  EXPECT_TRUE(is_new({A()}, "{}"));
  for (size_t byte = 0; byte < A().bytes.size(); ++byte) {
    FileTensor changed = A();
    changed.bytes[byte] = static_cast<char>(changed.bytes[byte] ^ 1);
    EXPECT_TRUE(is_new({changed, B()}, "{}")) << byte;
  }
  FileTensor changed = A();
  changed.name = "c";
  EXPECT_TRUE(is_new({changed, B()}, "{}"));
  changed = A();
  changed.shape = {3, 2};
  EXPECT_TRUE(is_new({changed, B()}, "{}"));
  changed = B();
  changed.dtype = "F16";
  EXPECT_TRUE(is_new({A(), changed}, "{}"));
}

TEST(CheckpointTest, ReadRefusesWhatIsNotWanted) {
  TempDir dir;
  FileTensor ints = F32Tensor("i", {1}, {0});
  ints.dtype = "I32";
  dir.Write("model.safetensors",
            FileBytes({A(), ints, F32Tensor("n", {4}, {0, 1, NAN, NAN}),
                       Bf16Tensor("inf", {4}, {0, std::numeric_limits<float>::infinity(), 1, 1})}));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto error = [&](std::string_view name, std::vector<int64_t> shape) {
    return std::string((*checkpoint)->Read(name, shape).status().message());
  };
  EXPECT_THAT(error("a", {3, 2}),
              HasSubstr("model.safetensors: tensor \"a\": shape [2, 3], wanted [3, 2]"));
  EXPECT_THAT(error("a", {6}), HasSubstr("tensor \"a\": shape [2, 3], wanted [6]"));
  EXPECT_THAT(
      error("i", {1}),
      HasSubstr(
          "tensor \"i\": type \"I32\", wanted F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K"));
  EXPECT_THAT(error("n", {4}), HasSubstr("tensor \"n\": value 2 is not a finite number"));
  EXPECT_THAT(error("inf", {4}), HasSubstr("tensor \"inf\": value 1 is not a finite number"));
  EXPECT_THAT(error("x", {4, 1}), HasSubstr("tensor \"x\" of shape [4, 1] is missing"));
  EXPECT_EQ((*checkpoint)->Read("x", k4).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*checkpoint)->dtype(), "") << "a tensor that was refused was not read";
}

std::string OpenError(const TempDir& dir) {
  return std::string(Checkpoint::Open(dir.path()).status().message());
}

TEST(CheckpointTest, ADirectoryWithNoOrSeveralFilesIsRefused) {
  EXPECT_THAT(std::string(Checkpoint::Open("/nowhere").status().message()), HasSubstr("/nowhere"));
  TempDir dir;
  EXPECT_THAT(OpenError(dir), HasSubstr("no model.safetensors"));
  dir.Write("y.safetensors", FileBytes({A()}));
  dir.Write("x.safetensors", FileBytes({B()}));
  EXPECT_THAT(OpenError(dir), HasSubstr("x.safetensors, y.safetensors"));
  TempDir quantized;
  quantized.Write("x-Q8_0.gguf", GgufOfBoth());
  quantized.Write("x-Q4_0.gguf", GgufOfBoth());
  EXPECT_THAT(OpenError(quantized), HasSubstr("give the path of one: x-Q4_0.gguf, x-Q8_0.gguf"));
}

TEST(CheckpointTest, BrokenIndexesAreRefused) {
  const struct {
    std::string index;
    std::string why;
  } cases[] = {
      {"", "index.json: not valid JSON"},
      {"[]", "index.json: weight_map: missing"},
      {"{}", "index.json: weight_map: missing"},
      {R"({"weight_map": 1})", "index.json: weight_map: missing"},
      {R"({"weight_map": {}})", "index.json: weight_map: missing"},
      {R"({"weight_map": {"a": "s1.safetensors", "a": "s2.safetensors"}})", "\"a\" stands twice"},
      {R"({"weight_map": {"a": 1}})", "tensor \"a\": \"\" is not the name"},
      {R"({"weight_map": {"a": "../s1.safetensors"}})",
       "tensor \"a\": \"../s1.safetensors\" is not"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "tensor \"a\": \"/etc/passwd\" is not the name"},
      {R"({"weight_map": {"a": ".."}})", "tensor \"a\": \"..\" is not the name"},
      {R"({"weight_map": {"a": "s1.safetensors\u0000.safetensors"}})", "is not the name"},
      {R"({"weight_map": {"a": "config.json"}})", "tensor \"a\": \"config.json\" is not the name"},
      {R"({"weight_map": {"a": "s1.safetensors", "b": "s3.safetensors"}})", "s3.safetensors"},
      {R"({"weight_map": {"a": "s1.safetensors", "c": "s1.safetensors"}})",
       "index.json: tensor \"c\": not in"},
      {R"({"weight_map": {"a": "s2.safetensors", "b": "s1.safetensors"}})",
       "index.json: tensor \"a\": not in"},
      {R"({"weight_map": {"a": "s1.safetensors", "b": "again.safetensors"}})",
       "tensor \"a\": also stands in"},
      {R"({"weight_map": {"a": "cut.safetensors"}})", "cut.safetensors: truncated"},
  };
  for (const auto& [index, why] : cases) {
    TempDir dir;
    dir.Write("s1.safetensors", FileBytes({A()}));
    dir.Write("s2.safetensors", FileBytes({B()}));
    dir.Write("again.safetensors", FileBytes({A(), B()}));
    dir.Write("cut.safetensors", FileBytes({A()}).substr(0, 20));
    dir.Write(kIndex, index);
    EXPECT_THAT(OpenError(dir), HasSubstr(why)) << index;
  }
}

}  // namespace
}  // namespace fermata
