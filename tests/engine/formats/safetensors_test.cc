#include "engine/formats/safetensors.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/formats/widen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/files.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Parses a copy that is exactly as long as `bytes`, so that a read past it is seen.
absl::Status Parse(std::string_view bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const auto tensors = ParseSafetensors({copy.get(), bytes.size()}, "x.safetensors");
  if (!tensors.ok()) return tensors.status();
  for (const auto& [name, tensor] : *tensors) {
    if (!CanWiden(tensor.dtype)) continue;
    std::vector<float> values(tensor.size());
    Widen(tensor.dtype, tensor.data, values);
  }
  return absl::OkStatus();
}

TEST(SafetensorsTest, ReadsWhatAnotherReaderReads) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*ConformanceDir())) {
    if (entry.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(entry.path());
    const std::string bytes = ReadBytes(entry.path());
    const auto tensors = ParseSafetensors(std::as_bytes(std::span(bytes)), "file");
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    const auto expected = ReadSafetensors(entry.path());
    ASSERT_EQ(tensors->size(), expected.size());
    for (const auto& [name, tensor] : *tensors) {
      ASSERT_TRUE(expected.contains(name)) << name;
      EXPECT_EQ(tensor.shape, expected.at(name).shape) << name;
      std::vector<float> values(tensor.size());
      EXPECT_EQ(Widen(tensor.dtype, tensor.data, values), -1) << name;
      EXPECT_EQ(values, expected.at(name).values) << name;
    }
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(SafetensorsTest, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(Parse(FileBytes("{}", "")).ok());
  EXPECT_TRUE(Parse(FileBytes(R"({"__metadata__": {"a": "b"}}   )", "")).ok());
  EXPECT_TRUE(Parse(FileBytes(R"({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
                                  "z": {"dtype": "F32", "shape": [0, 7], "data_offsets": [4, 4]},
                                  "i": {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]},
                                  "n": {"dtype": "NEW", "shape": [9], "data_offsets": [12, 13]}})",
                              "0123456789abc"))
                  .ok());
}

// A header with the one tensor "w".
std::string One(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}}";
}

TEST(SafetensorsTest, EveryBrokenFileIsAnErrorThatNamesTheCulprit) {
  const std::string four = "0123";
  const struct {
    std::string file;
    std::string why;
  } cases[] = {
      {"", "truncated: 0 bytes"},
      {"1234567", "truncated: 7 bytes"},
      {std::string(8, '\xff'), "header length 18446744073709551615 is over the limit"},
      {FileBytes("{}", "").substr(0, 9), "truncated: header length 2 in a file of 9 bytes"},
      {FileBytes("", ""), "header: not valid JSON at byte"},
      {FileBytes("{\"w\":", ""), "header: not valid JSON at byte"},
      {FileBytes("[]", ""), "header: not a JSON object"},
      {FileBytes("{}{}", ""), "header: not valid JSON at byte"},
      {FileBytes(std::string(100000, '['), ""), "nested deeper than"},
      {FileBytes("{\"\xff\": 1}", ""), "header: not valid JSON at byte"},
      {FileBytes(R"({"w": 1, "w": 2})", ""), "the key \"w\" stands twice"},
      {FileBytes(R"({"w": {"dtype": "F32", "dtype": "F32"}})", ""), "key \"dtype\" stands twice"},
      {FileBytes(R"({"w": 1})", ""), "tensor \"w\": not described by a JSON object"},
      {FileBytes(R"({"a\nb": 1})", ""), "tensor \"a\\nb\": not described"},
      {FileBytes(R"({"w": {"dtype": "F32", "shape": [1]}})", ""), "\"w\": data_offsets is missing"},
      {FileBytes(R"({"w": {"shape": [1], "data_offsets": [0, 4]}})", four), "dtype is missing"},
      {FileBytes(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "x": 0}})", four),
       "tensor \"w\": unknown field \"x\""},
      {FileBytes(R"({"w": {"dtype": 1, "shape": [1], "data_offsets": [0, 4]}})", four),
       "tensor \"w\": dtype is not a string"},
      {FileBytes(R"({"__metadata__": {"a": 1}})", ""), "__metadata__ does not map strings"},
      {FileBytes(R"({"__metadata__": "a"})", ""), "__metadata__ does not map strings"},
      {FileBytes(One("F32", "1", "[0, 4]"), four), "tensor \"w\": shape is not a list"},
      {FileBytes(One("F32", "[-1]", "[0, 4]"), four),
       "tensor \"w\": shape holds what is no length"},
      {FileBytes(One("F32", "[1.0]", "[0, 4]"), four), "shape holds what is no length"},
      {FileBytes(One("F32", "[9223372036854775808]", "[0, 4]"), four), "what is no length"},
      {FileBytes(One("F32", "[1152921504606846976, 1152921504606846976]", "[0, 4]"), four),
       "tensor \"w\": shape [1152921504606846976, 1152921504606846976] overflows"},
      {FileBytes(One("F32", "[1152921504606846976]", "[0, 4]"), four), "does not take the 4 bytes"},
      {FileBytes(One("F64", "[1152921504606846976]", "[0, 4]"), four), "does not take the 4 bytes"},
      {FileBytes(One("U8", "[1152921504606846976]", "[0, 1152921504606846976]"), four),
       "tensor \"w\": data_offsets [0, 1152921504606846976] reach past the file's 4 bytes"},
      {FileBytes(One("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0, 4]"), four),
       "tensor \"w\": shape holds 17 numbers"},
      {FileBytes(One("F32", "[2]", "[0, 4]"), four),
       "tensor \"w\": shape [2] of F32 does not take"},
      {FileBytes(One("F4", "[1]", "[0, 1]"), "0"), "tensor \"w\": shape [1] of F4 does not take"},
      {FileBytes(One("F32", "[1]", "[4, 0]"), four), "data_offsets [4, 0] are not a begin and"},
      {FileBytes(One("F32", "[1]", "[0]"), four), "data_offsets [0] are not a begin and an end"},
      {FileBytes(One("F32", "[1]", "[0, 4, 4]"), four), "are not a begin and an end"},
      {FileBytes(One("F32", "[1]", "[1, 5]"), four), "reach past the file's 4 bytes of data"},
      {FileBytes(One("F32", "[1]", "[1, 5]"), "01234"), "tensor \"w\": a hole of 1 bytes before"},
      {FileBytes(One("F32", "[1]", "[0, 4]"), "01234"), "1 bytes after the last tensor"},
      {FileBytes(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                     "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
                 four),
       "tensor \"b\": overlaps tensor \"a\" at data offset 2"},
  };
  for (const auto& [file, why] : cases) {
    const absl::Status status = Parse(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), StartsWith("x.safetensors: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  }
}

TEST(SafetensorsTest, LongNamesAreCutInErrors) {
  const absl::Status status = Parse(FileBytes("{\"" + std::string(100000, 'n') + "\": 1}", ""));
  EXPECT_LT(status.message().size(), 1000u);
}

// Any change of a right file is read or refused, and never more than that.
TEST(SafetensorsTest, SurvivesMutations) {
  const std::string right =
      FileBytes({F32Tensor("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}),
                 Bf16Tensor("b.weight", {4}, {1, 2, 3, 4}), F32Tensor("c", {}, {7})});
  ASSERT_TRUE(Parse(right).ok());
  std::mt19937_64 random(20240607);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  constexpr std::string_view kPieces[] = {
      "\"",  "{",    "}", "[", "]", ",", "-", "9", "e9", "\\u0000", "null", "1152921504606846976",
      "F64", "\xc3", "0"};
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string file = right;
    for (size_t changes = 1 + below(3); changes > 0 && !file.empty(); --changes) {
      const size_t at = below(file.size());
      switch (below(5)) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
          break;
        case 2:
          file.resize(at);
          break;
        case 3:
          file.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        default:
          file.erase(at, 1 + below(8));
      }
    }
    if (!Parse(file).ok()) ++refused;
  }
  EXPECT_GT(refused, 3000);
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string right = FileBytes({F32Tensor("a", {2}, {1, 2}), F32Tensor("b", {1}, {3})});
  for (size_t size = 0; size < right.size(); ++size) {
    EXPECT_FALSE(Parse(right.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace fermata
