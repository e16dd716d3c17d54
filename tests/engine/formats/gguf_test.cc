#include "engine/formats/gguf.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/formats/testing.h"
#include "tests/gguf_file.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

absl::StatusOr<StoredTensors> ReadTensors(std::span<const std::byte> bytes,
                                          std::string_view source) {
  auto file = GgufFile::Parse(bytes, source);
  if (!file.ok()) return file.status();
  // Whatever is there can be asked for as anything.
  for (const std::string_view key : file->keys()) {
    file->Strings(key).status().IgnoreError();
    file->Numbers(key, -1, 1).status().IgnoreError();
    file->Ints(key, -1, 1).status().IgnoreError();
    file->Bool(key).status().IgnoreError();
  }
  return file->tensors();
}

std::string Floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += Bytes(value);
  return bytes;
}

GgufSpec Small() {
  return {.keys = {{"general.architecture", GgufString("rwkv7")},
                   {"rwkv7.block_count", GgufUint32(2)},
                   {"rwkv7.eps", GgufFloat32(1e-5f)},
                   {"flag", GgufBool(true)},
                   {"tokenizer.ggml.tokens", GgufStrings({"a", "", "\xc3\xa9"})},
                   {"tokenizer.ggml.scores", GgufFloats({0, -1, 2.5})},
                   {"tokenizer.ggml.token_type", GgufInts({1, 3, 6})}},
          .tensors = {{"b", 0, {3, 2}, Floats({1, 2, 3, 4, 5, 6}), {}},
                      {"a", 1, {4}, std::string("\0\x3c\0\x40\0\xbc\0\0", 8), {}}}};
}

struct Parsed {
  explicit Parsed(const GgufSpec& spec)
      : bytes(GgufBytes(spec)), file(GgufFile::Parse(std::as_bytes(std::span(bytes)), "m.gguf")) {}
  std::string bytes;
  absl::StatusOr<GgufFile> file;
};

TEST(GgufTest, ReadsKeysAndTensors) {
  for (const uint32_t version : {2, 3}) {
    GgufSpec spec = Small();
    spec.version = version;
    const Parsed parsed(spec);
    ASSERT_TRUE(parsed.file.ok()) << parsed.file.status();
    const GgufFile& file = *parsed.file;
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.keys().size(), 7u);
    EXPECT_EQ(*file.String("general.architecture"), "rwkv7");
    EXPECT_EQ(*file.Int("rwkv7.block_count", 1, 100), 2);
    EXPECT_EQ(*file.Number("rwkv7.eps", 0, 1), double{1e-5f});
    EXPECT_EQ(*file.Number("rwkv7.block_count", 0, 9), 2.0);
    EXPECT_TRUE(*file.Bool("flag"));
    EXPECT_THAT(*file.Strings("tokenizer.ggml.tokens"), ElementsAre("a", "", "\xc3\xa9"));
    EXPECT_THAT(*file.Numbers("tokenizer.ggml.scores", -10, 10), ElementsAre(0, -1, 2.5));
    EXPECT_THAT(*file.Ints("tokenizer.ggml.token_type", 0, 6), ElementsAre(1, 3, 6));
    EXPECT_THAT(*file.Ints("rwkv7.block_count", 0, 9), ElementsAre(2));

    ASSERT_EQ(file.tensors().size(), 2u);
    const StoredTensor& a = file.tensors().at("a");
    EXPECT_EQ(a.dtype, "F16");
    EXPECT_THAT(a.shape, ElementsAre(4));
    const StoredTensor& b = file.tensors().at("b");
    EXPECT_EQ(b.dtype, "F32");
    EXPECT_THAT(b.shape, ElementsAre(2, 3));
  }
  EXPECT_THAT(*ReadNumbers(ReadTensors, GgufBytes(Small())),
              ElementsAre(1, 2, -1, 0, 1, 2, 3, 4, 5, 6));
}

// Each type of ggml's by number, name and the bytes of a block (ggml-common.h).
TEST(GgufTest, ListsEveryTypeOfTensor) {
  const struct {
    uint32_t type;
    const char* name;
    uint64_t block;
    size_t bytes;
  } types[] = {
      {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
      {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
      {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
      {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
      {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
      {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
      {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
      {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
      {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
      {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
      {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
  };
  for (const auto& type : types) {
    const Parsed parsed(
        {.tensors = {
             {"w", type.type, {type.block * 3, 2}, std::string(type.bytes * 6, '\0'), {}}}});
    ASSERT_TRUE(parsed.file.ok()) << type.name << parsed.file.status();
    const StoredTensor& tensor = parsed.file->tensors().at("w");
    EXPECT_EQ(tensor.dtype, type.name);
    EXPECT_EQ(tensor.data.size(), type.bytes * 6);
  }
}

TEST(GgufTest, ReadsEveryWidthOfNumber) {
  const Parsed parsed({.keys = {{"u8", Bytes<uint32_t>(0) + Bytes<uint8_t>(255)},
                                {"i8", Bytes<uint32_t>(1) + Bytes<int8_t>(-128)},
                                {"u16", Bytes<uint32_t>(2) + Bytes<uint16_t>(65535)},
                                {"i16", Bytes<uint32_t>(3) + Bytes<int16_t>(-32768)},
                                {"i32", Bytes<uint32_t>(5) + Bytes<int32_t>(INT32_MIN)},
                                {"u64", Bytes<uint32_t>(10) + Bytes<uint64_t>(INT64_MAX)},
                                {"big", Bytes<uint32_t>(10) + Bytes<uint64_t>(UINT64_MAX)},
                                {"i64", Bytes<uint32_t>(11) + Bytes<int64_t>(INT64_MIN)},
                                {"f64", Bytes<uint32_t>(12) + Bytes<double>(0.1)}}});
  ASSERT_TRUE(parsed.file.ok()) << parsed.file.status();
  const auto value = [&](std::string_view key) {
    return *parsed.file->Int(key, INT64_MIN, INT64_MAX);
  };
  EXPECT_EQ(value("u8"), 255);
  EXPECT_EQ(value("i8"), -128);
  EXPECT_EQ(value("u16"), 65535);
  EXPECT_EQ(value("i16"), -32768);
  EXPECT_EQ(value("i32"), INT32_MIN);
  EXPECT_EQ(value("u64"), INT64_MAX);
  EXPECT_EQ(value("i64"), INT64_MIN);
  EXPECT_EQ(*parsed.file->Number("f64", 0, 1), 0.1);
  EXPECT_THAT(std::string(parsed.file->Int("big", 0, INT64_MAX).status().message()),
              HasSubstr("key \"big\": 18446744073709551615 is too large"));
}

TEST(GgufTest, AccessorsNameTheKey) {
  GgufSpec spec = Small();
  spec.keys.push_back({"nan", GgufFloat32(std::numeric_limits<float>::quiet_NaN())});
  spec.keys.push_back({"inf", GgufFloat32(std::numeric_limits<float>::infinity())});
  const Parsed parsed(spec);
  ASSERT_TRUE(parsed.file.ok()) << parsed.file.status();
  const GgufFile& file = *parsed.file;
  const auto text = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(text(file.Int("x", 0, 1).status()), StartsWith("m.gguf: key \"x\": missing"));
  EXPECT_THAT(text(file.Int("rwkv7.eps", 0, 1).status()),
              HasSubstr("key \"rwkv7.eps\": of type float32, wanted an integer"));
  EXPECT_THAT(text(file.Int("flag", 0, 1).status()), HasSubstr("of type bool, wanted an integer"));
  EXPECT_THAT(text(file.Int("rwkv7.block_count", 3, 9).status()), HasSubstr("2 is outside [3, 9]"));
  EXPECT_THAT(text(file.Int("tokenizer.ggml.token_type", 0, 9).status()),
              HasSubstr("an array of int32, wanted one value"));
  EXPECT_THAT(text(file.Ints("tokenizer.ggml.token_type", 0, 3).status()),
              HasSubstr("6 is outside"));
  EXPECT_THAT(text(file.Number("nan", -1, 1).status()), HasSubstr("nan is outside"));
  EXPECT_THAT(text(file.Number("inf", 0, INFINITY).status()), HasSubstr("inf is outside"));
  EXPECT_THAT(text(file.Number("flag", 0, 1).status()), HasSubstr("wanted a number"));
  EXPECT_THAT(text(file.Bool("rwkv7.block_count").status()), HasSubstr("wanted a bool"));
  EXPECT_THAT(text(file.String("flag").status()), HasSubstr("of type bool, wanted strings"));
  EXPECT_THAT(text(file.Strings("tokenizer.ggml.scores").status()),
              HasSubstr("an array of float32, wanted strings"));
  EXPECT_EQ(*file.Int("x", 0, 1, 7), 7);
  EXPECT_EQ(*file.Number("x", 0, 1, 0.5), 0.5);
  EXPECT_EQ(*file.Bool("x", true), true);
  EXPECT_EQ(*file.String("x", "y"), "y");
  EXPECT_THAT(*file.Strings("x"), IsEmpty());
  EXPECT_TRUE(file.Has("flag"));
  EXPECT_FALSE(file.Has("x"));
}

constexpr uint64_t kHuge = uint64_t{1} << 60;

std::string WithKey(const std::string& key, const std::string& value) {
  return GgufBytes({.keys = {{key, value}}});
}
std::string WithTensor(const GgufTensor& tensor) { return GgufBytes({.tensors = {tensor}}); }

TEST(GgufTest, EveryBrokenFileIsAnErrorThatNamesTheCulprit) {
  const std::string four = Floats({1});
  const std::string pad(28, '\0');
  const auto with = [](auto change) {
    GgufSpec spec = Small();
    change(spec);
    return GgufBytes(spec);
  };
  const struct {
    std::string file;
    std::string why;
  } cases[] = {
      {"", "not a GGUF file"},
      {"GGUX\3\0\0\0", "not a GGUF file"},
      {"GGUF\3", "truncated: the header"},
      {GgufBytes({.version = 0}), "GGUF version 0 is not read"},
      {GgufBytes({.version = 1}), "GGUF version 1 is not read"},
      {GgufBytes({.version = 4}), "GGUF version 4 is not read"},
      {GgufBytes({.version = 0x03000000}), "a big-endian GGUF file"},
      {with([](GgufSpec& spec) { spec.num_keys = kHuge; }),
       "truncated: 1152921504606846976 keys in"},
      {with([](GgufSpec& spec) { spec.num_tensors = kHuge; }),
       "truncated: 1152921504606846976 tensors in"},
      {with([](GgufSpec& spec) { spec.num_keys = 8; }), "reaches past the file's"},
      {WithKey("", GgufBool(true)), "a key's name of 0 bytes"},
      {WithKey(std::string(65536, 'k'), GgufBool(true)), "a key's name of 65536 bytes"},
      {WithKey("\xff", GgufBool(true)), "a key's name before byte 33 is not UTF-8: \"\\xff\""},
      {WithKey("k", GgufString("a\xc3")), "key \"k\": string 0 before byte 47 is not UTF-8"},
      {WithKey("k", GgufStrings({"a", "\xed\xa0\x80"})), "key \"k\": string 1 before byte"},
      {WithKey("k", Bytes<uint32_t>(13) + "0"), "key \"k\": value type 13 is not one of GGUF's"},
      {WithKey("k", GgufArray(9, 0, "")), "key \"k\": an array of arrays"},
      {WithKey("k", GgufArray(13, 1, "0")), "key \"k\": value type 13 is not one of GGUF's"},
      {WithKey("k", GgufArray(4, kHuge, "0123")), "key \"k\": 1152921504606846976 values"},
      {WithKey("k", GgufArray(4, uint64_t{1} << 62, "0123")), "4611686018427387904 values"},
      {WithKey("k", GgufArray(8, kHuge, "")), "key \"k\": string 0"},
      {WithKey("k", Bytes<uint32_t>(8) + Bytes(kHuge)),
       "truncated: key \"k\": string 0 of 1152921504606846976 bytes"},
      {WithKey("k", Bytes<uint32_t>(8) + Bytes(UINT64_MAX)), "of 18446744073709551615 bytes"},
      {WithKey("k", Bytes<uint32_t>(7) + "\2"), "key \"k\": a bool that is neither 0 nor 1"},
      {WithKey("k", GgufArray(7, 3, std::string("\0\1\2", 3))), "neither 0 nor 1"},
      {GgufBytes({.keys = {{"k", GgufBool(true)}, {"k", GgufBool(true)}}}), "\"k\": stands twice"},
      {WithKey("general.alignment", GgufUint32(48)), "\"general.alignment\": 48 is not a power"},
      {WithKey("general.alignment", GgufUint32(0)), "\"general.alignment\": 0 is outside"},
      {WithKey("general.alignment", GgufString("32")), "\"general.alignment\": of type string"},
      {WithTensor({"\xff", 0, {1}, four, {}}), "a tensor's name before byte"},
      {WithTensor({"w", 0, {1, 1, 1, 1, 1}, four, {}}), "tensor \"w\": has 5 dimensions"},
      {WithTensor({"w", 0, {UINT64_MAX}, four, {}}), "tensor \"w\": an extent of 1844674407370955"},
      {WithTensor({"w", 0, {kHuge}, four, {}}), "tensor \"w\": truncated: 4611686018427387904 by"},
      {WithTensor({"w", 0, {kHuge, 8}, four, {}}), "tensor \"w\": shape [8, 11529215046068469"},
      {WithTensor({"w", 0, {kHuge, kHuge}, four, {}}), "overflows"},
      {WithTensor({"w", 0, {kHuge, 2}, four, {}}), "overflows"},
      {WithTensor({"w", 4, {1}, four, {}}), "tensor \"w\": element type 4 is not one of ggml's"},
      {WithTensor({"w", 31, {1}, four, {}}), "tensor \"w\": element type 31 is not"},
      {WithTensor({"w", 43, {1}, four, {}}), "tensor \"w\": element type 43 is not"},
      {WithTensor({"w", UINT32_MAX, {1}, four, {}}), "element type 4294967295 is not"},
      {WithTensor({"w", 8, {16, 2}, std::string(34, '\0'), {}}),
       "tensor \"w\": rows of 16 are no whole blocks of Q8_0, which hold 32"},
      {WithTensor({"w", 8, {}, std::string(34, '\0'), {}}), "tensor \"w\": rows of 1 are no whole"},
      {WithTensor({"w", 0, {9}, four, {}}), "tensor \"w\": truncated: 36 bytes at data offset 0"},
      {WithTensor({"w", 0, {1}, four, 16}), "tensor \"w\": offset 16 is not a multiple of"},
      {WithTensor({"w", 0, {1}, four, 32}), "tensor \"w\": truncated: 4 bytes at data offset 32"},
      {WithTensor({"w", 0, {1}, four, kHuge}), "at data offset 1152921504606846976 reach past"},
      {WithTensor({"w", 0, {1}, four + pad + four, 32}), "tensor \"w\": a hole of 32 bytes"},
      {WithTensor({"w", 0, {1}, four + pad + four, {}}), "60 bytes after the last tensor"},
      {GgufBytes({.tensors = {{"w", 0, {1}, four, {}}, {"w", 0, {1}, four, {}}}}),
       "tensor \"w\": stands twice"},
      {GgufBytes({.tensors = {{"v", 0, {1}, four, {}}, {"w", 0, {1}, four, 0}}}),
       "tensor \"w\": overlaps tensor \"v\" at data offset 0"},
  };
  for (const auto& [file, why] : cases) {
    const absl::Status status = ReadNumbers(ReadTensors, file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), StartsWith("file: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
    EXPECT_LT(status.message().size(), 1000u);
  }
}

TEST(GgufTest, AcceptsWhatTheFormatAllows) {
  const std::string four = Floats({1});
  EXPECT_TRUE(ReadNumbers(ReadTensors, GgufBytes({})).ok());
  EXPECT_TRUE(ReadNumbers(ReadTensors, WithKey("k", GgufArray(8, 0, ""))).ok());
  EXPECT_TRUE(ReadNumbers(ReadTensors, WithTensor({"scalar", 0, {}, four, {}})).ok());
  EXPECT_TRUE(ReadNumbers(ReadTensors, WithTensor({"none", 0, {0, 3}, "", {}})).ok());
  // The last tensor's padding may be left out, and tensors may lie in another order.
  std::string file = GgufBytes({.tensors = {{"b", 0, {1}, four, 32}, {"a", 0, {1}, four, 0}}});
  EXPECT_TRUE(ReadNumbers(ReadTensors, file.substr(0, file.size() - 28)).ok());
  EXPECT_TRUE(ReadNumbers(ReadTensors, GgufBytes({.alignment = 1,
                                                  .keys = {{"general.alignment", GgufUint32(1)}},
                                                  .tensors = {{"a", 0, {1}, four, {}},
                                                              {"b", 0, {1}, four, {}}}}))
                  .ok());
}

TEST(GgufTest, EveryTruncationIsRefusedOrChangesNothing) {
  const std::string right = GgufBytes(Small());
  const std::vector<float> numbers = *ReadNumbers(ReadTensors, right);
  size_t accepted = 0;
  for (size_t size = 0; size < right.size(); ++size) {
    const auto read = ReadNumbers(ReadTensors, right.substr(0, size));
    if (!read.ok()) continue;
    EXPECT_EQ(*read, numbers) << size;
    ++accepted;
  }
  EXPECT_EQ(accepted, 24u) << "the padding of the last tensor of 8 bytes";
}

TEST(GgufTest, SurvivesMutations) {
  const std::string right = GgufBytes(Small());
  for (size_t at = 0; at < right.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff, 0x20}) {
      std::string file = right;
      file[at] = static_cast<char>(file[at] ^ mask);
      ReadNumbers(ReadTensors, file).status().IgnoreError();
    }
  }
}

}  // namespace
}  // namespace fermata
