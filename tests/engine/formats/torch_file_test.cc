#include "engine/formats/torch_file.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/formats/testing.h"
#include "tests/gguf_file.h"
#include "tests/torch_file.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += Bytes(static_cast<float>(i));
  return bytes;
}

std::vector<TorchTensor> Tensors() {
  return {
      {.name = "b", .key = "0", .storage_size = 8, .shape = {2, 4}, .strides = {4, 1}},
      {.name = "a",
       .storage = "BFloat16Storage",
       .key = "1",
       .storage_size = 2,
       .shape = {1, 2},
       .strides = {77, 1},
       .parameter = true},
      {.name = "c", .key = "0", .storage_size = 8, .offset = 2, .shape = {3}, .strides = {1}},
  };
}
ZipSpec Storages() { return {{"0", Floats(8)}, {"1", std::string("\x80\x3f\x00\xc0", 4)}}; }

std::string Right(bool ordered = true) {
  return TorchBytes(PickleBytes(Tensors(), ordered), Storages());
}

TEST(TorchFileTest, ReadsDictsOfTensors) {
  for (const bool ordered : {false, true}) {
    const std::string bytes = Right(ordered);
    const auto tensors = ParseTorchFile(std::as_bytes(std::span(bytes)), "m.pth");
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), 3u);
    EXPECT_EQ(tensors->at("a").dtype, "BF16");
    EXPECT_THAT(tensors->at("a").shape, ElementsAre(1, 2));
    EXPECT_EQ(tensors->at("b").dtype, "F32");
    EXPECT_THAT(tensors->at("b").shape, ElementsAre(2, 4));
    EXPECT_THAT(*ReadNumbers(ParseTorchFile, bytes),
                ElementsAre(1, -2, 0, 1, 2, 3, 4, 5, 6, 7, 2, 3, 4));
  }
}

TEST(TorchFileTest, KnowsTheStoragesOfTorch) {
  const struct {
    const char* storage;
    const char* dtype;
    size_t width;
  } types[] = {{"FloatStorage", "F32", 4},     {"HalfStorage", "F16", 2},
               {"BFloat16Storage", "BF16", 2}, {"DoubleStorage", "F64", 8},
               {"LongStorage", "I64", 8},      {"IntStorage", "I32", 4},
               {"ShortStorage", "I16", 2},     {"CharStorage", "I8", 1},
               {"ByteStorage", "U8", 1},       {"BoolStorage", "BOOL", 1}};
  for (const auto& type : types) {
    const std::string bytes = TorchBytes(PickleBytes({{.name = "w",
                                                       .storage = type.storage,
                                                       .key = "k",
                                                       .storage_size = 5,
                                                       .offset = 1,
                                                       .shape = {4},
                                                       .strides = {1}}}),
                                         {{"k", std::string(5 * type.width, '\0')}});
    const auto tensors = ParseTorchFile(std::as_bytes(std::span(bytes)), "m.pth");
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->at("w").dtype, type.dtype);
    EXPECT_EQ(tensors->at("w").data.size(), 4 * type.width);
  }
}

TEST(TorchFileTest, ShapesWithoutNumbersOrDimensionsAreRowMajor) {
  const std::vector<TorchTensor> tensors = {
      {.name = "scalar", .key = "0", .storage_size = 8, .offset = 7},
      {.name = "none", .key = "0", .storage_size = 8, .shape = {0, 4}, .strides = {4, 1}},
      {.name = "odd", .key = "0", .storage_size = 8, .shape = {4, 0}, .strides = {3, 9}},
      {.name = "ones", .key = "0", .storage_size = 8, .shape = {1, 2, 1}, .strides = {0, 1, 5}}};
  const auto numbers =
      ReadNumbers(ParseTorchFile, TorchBytes(PickleBytes(tensors), {{"0", Floats(8)}}));
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_THAT(*numbers, ElementsAre(0, 1, 7));
}

// A pickle of protocol 2 that is not a dict of tensors.
std::string WithPickle(const std::string& body) {
  return TorchBytes("\x80\x02" + body, Storages());
}
std::string With(TorchTensor tensor, const ZipSpec& storages = Storages()) {
  tensor.name = "w";
  if (tensor.key.empty()) tensor.key = "0";
  if (tensor.storage_size == 0) tensor.storage_size = 8;
  return TorchBytes(PickleBytes({tensor}), storages);
}
// {"w": <value>}
std::string Dict(const std::string& value) { return "}(" + PickleText("w") + value + "u."; }

TEST(TorchFileTest, NoPickleIsRun) {
  const struct {
    std::string body;
    std::string why;
  } cases[] = {
      {PickleGlobal("os", "system") + "(" + PickleText("id") + "tR.",
       "the pickle at byte 2: names \"os.system\""},
      {PickleGlobal("builtins", "eval") + ".", "names \"builtins.eval\""},
      {PickleGlobal("torch", "FloatStorage2") + ".", "names \"torch.FloatStorage2\""},
      {PickleGlobal("torch._utils", "_rebuild_tensor_v3") + ".", "torch._utils._rebuild_tensor_v3"},
      {PickleText("os") + PickleText("system") + "\x93.", "operation STACK_GLOBAL (0x93)"},
      {"(ios\nsystem\n.", "the pickle at byte 3: operation INST (0x69)"},
      {PickleGlobal("collections", "OrderedDict") + ")\x81.", "operation NEWOBJ (0x81)"},
      {"].", "operation EMPTY_LIST (0x5d)"},
      {"G12345678.", "operation BINFLOAT (0x47)"},
      {"\x99.", "operation 0x99"},
      {PickleGlobal("torch", "FloatStorage") + ")R.", "calls FloatStorage with other arguments"},
      {PickleGlobal("collections", "OrderedDict") + "(" + PickleInt(1) + "tR.",
       "calls OrderedDict with other arguments"},
      {PickleGlobal("torch._utils", "_rebuild_tensor_v2") + ")R.",
       "calls _rebuild_tensor_v2 with other arguments"},
      {PickleGlobal("torch._utils", "_rebuild_parameter") + "(}\x88}tR.",
       "calls _rebuild_parameter with other arguments"},
      {"})R.", "calls what can not be called"},
      {"K\1)R.", "calls what can not be called"},
  };
  for (const auto& [body, why] : cases) {
    const auto status = ReadNumbers(ParseTorchFile, WithPickle(body)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr("convert the file to .safetensors"));
  }
}

TEST(TorchFileTest, EveryBrokenFileIsAnErrorThatNamesTheCulprit) {
  constexpr int64_t kHuge = int64_t{1} << 60;
  const ZipSpec plain = {{"a/data.pkl", "\x80\x02}."}};
  const struct {
    std::string file;
    std::string why;
  } cases[] = {
      {"", "not a file that PyTorch has saved"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "saved by PyTorch before 1.6"},
      {"GGUF", "not a file that PyTorch has saved"},
      {"PK", "not a whole zip archive"},
      {ZipBytes({{"x", "y"}}), "a zip archive with no <name>/data.pkl"},
      {ZipBytes({{"data.pkl", "\x80\x02}."}}), "no <name>/data.pkl"},
      {ZipBytes({plain[0], {"b/data.pkl", ""}}), "two pickles"},
      {ZipBytes({plain[0], {"a/byteorder", "big"}}), "its byteorder is not little"},
      {WithPickle(""), "the pickle at byte 2: truncated"},
      {TorchBytes("\x80\x04}.", {}), "the pickle at byte 0: protocol 4, wanted 2"},
      {WithPickle("\x80\x02}."), "the pickle at byte 2: protocol 2"},
      {WithPickle("."), "more or less than a value"},
      {WithPickle("}}."), "more or less than a value"},
      {WithPickle("(}."), "more or less than a value"},
      {WithPickle("}.}"), "goes on for 1 bytes"},
      {WithPickle("K\1."), "holds no dict"},
      {WithPickle("\x8a\x09" + std::string(9, '\1') + "."), "an integer of more than 64 bits"},
      {WithPickle("X" + Bytes<uint32_t>(UINT32_MAX) + "abc"), "truncated"},
      {WithPickle("X" + Bytes<uint32_t>(1) + "\xff."), "a string that is not UTF-8"},
      {WithPickle("ctorch\nFloatStorage"), "truncated"},
      {WithPickle("q\1."), "takes more values than there are"},
      {WithPickle("h\1."), "recalls 1, which was not kept"},
      {WithPickle("j" + Bytes<uint32_t>(7) + "."), "recalls 7, which was not kept"},
      {WithPickle("t."), "goes back to a mark that is not there"},
      {WithPickle("\x87."), "takes more values than there are"},
      {WithPickle("K\1(\x85."), "takes more values than there are"},
      {WithPickle("(u."), "sets items of what is no dict"},
      {WithPickle("}(K\1u."), "sets items of what is no dict"},
      {WithPickle(")(K\1K\1u."), "sets items of what is no dict"},
      {WithPickle("})b."), "sets attributes of what is no dict"},
      {WithPickle("K\1Q."), "a persistent id that is not of a storage"},
      {WithPickle("(" + PickleText("module") + PickleGlobal("torch", "FloatStorage") +
                  PickleText("0") + PickleText("cpu") + "K\1tQ."),
       "a persistent id that is not of a storage"},
      {WithPickle("(" + PickleText("storage") + PickleGlobal("collections", "OrderedDict") +
                  PickleText("0") + PickleText("cpu") + "K\1tQ."),
       "a persistent id that is not of a storage"},
      {WithPickle("}(K\1K\1u."), "the dict has a key that is not a string"},
      {WithPickle(Dict("K\1")), "the dict's value for \"w\" is not a tensor"},
      {WithPickle(Dict("}")), "the dict's value for \"w\" is not a tensor"},
      {WithPickle("}q\1(" + PickleText("w") + "h\1u."), "value for \"w\" is not a tensor"},
      {TorchBytes(PickleBytes({Tensors()[0], Tensors()[0]}), Storages()),
       "the dict's key \"b\" stands twice"},
      {With({.shape = {4, 2}, .strides = {1, 4}}),
       "tensor \"w\": strides [1, 4] of shape [4, 2] are not row-major"},
      {With({.shape = {2}, .strides = {2}}), "strides [2] of shape [2] are not row-major"},
      {With({.shape = {2}, .strides = {0}}), "strides [0] of shape [2] are not row-major"},
      {With({.shape = {9}, .strides = {1}}), "shape [9] at 0 reaches past its storage of 8"},
      {With({.offset = 1, .shape = {8}, .strides = {1}}), "shape [8] at 1 reaches past its stor"},
      {With({.offset = kHuge, .shape = {8}, .strides = {1}}), "at 1152921504606846976 reaches"},
      {With({.shape = {kHuge, kHuge}, .strides = {kHuge, 1}}), "overflows"},
      {With({.shape = {kHuge}, .strides = {1}}), "reaches past its storage of 8"},
      {With({.storage_size = kHuge, .shape = {8}, .strides = {1}}),
       "its storage \"0\" of 1152921504606846976 F32 has 32 bytes"},
      {With({.storage_size = 9, .shape = {8}, .strides = {1}}), "of 9 F32 has 32 bytes"},
      {With({.key = "7", .shape = {8}, .strides = {1}}), "its storage \"7\" is missing"},
      {With({.key = "../version", .shape = {8}, .strides = {1}}), "storage \"../version\" is miss"},
      {With({.storage_size = -1, .shape = {8}, .strides = {1}}), "persistent id that is not of a"},
      {With({.offset = -1, .shape = {8}, .strides = {1}}), "no sound offset, shape and strides"},
      {With({.shape = {-1}, .strides = {1}}), "no sound offset, shape and strides"},
      {With({.shape = {8}, .strides = {-1}}), "no sound offset, shape and strides"},
      {With({.shape = {8, 1}, .strides = {1}}), "no sound offset, shape and strides"},
      {With({.shape = std::vector<int64_t>(17, 1), .strides = std::vector<int64_t>(17, 1)}),
       "no sound offset, shape and strides"},
  };
  for (const auto& [file, why] : cases) {
    const absl::Status status = ReadNumbers(ParseTorchFile, file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), StartsWith("file: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
    EXPECT_LT(status.message().size(), 1000u);
  }
}

TEST(TorchFileTest, EveryTruncationIsRefused) {
  const std::string right = Right();
  for (size_t size = 0; size < right.size(); ++size) {
    EXPECT_FALSE(ReadNumbers(ParseTorchFile, right.substr(0, size)).ok()) << size;
  }
}

TEST(TorchFileTest, SurvivesMutations) {
  const std::string right = Right();
  for (size_t at = 0; at < right.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff, 0x20}) {
      std::string file = right;
      file[at] = static_cast<char>(file[at] ^ mask);
      ReadNumbers(ParseTorchFile, file).status().IgnoreError();
    }
  }
}

}  // namespace
}  // namespace fermata
