#include "engine/formats/gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"
#include "tests/gguf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fermata::GgufFile::Parse(std::as_bytes(std::span(data, size)), "input");
  if (!file.ok()) return 0;
  fermata::ReadAll(file->tensors());
  for (const std::string_view key : file->keys()) {
    file->Int(key, 0, 100).status().IgnoreError();
    file->Number(key, 0, 1).status().IgnoreError();
    file->Bool(key).status().IgnoreError();
    file->String(key).status().IgnoreError();
    file->Ints(key, INT64_MIN, INT64_MAX).status().IgnoreError();
    file->Numbers(key, -1e30, 1e30).status().IgnoreError();
    file->Strings(key).status().IgnoreError();
  }
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  const std::vector<std::pair<std::string, std::string>> keys = {
      {"general.architecture", GgufString("mamba2")},
      {"general.alignment", GgufUint32(32)},
      {"mamba2.attention.layer_norm_rms_epsilon", GgufFloat32(1e-5f)},
      {"tokenizer.ggml.add_bos_token", GgufBool(true)},
      {"tokenizer.ggml.tokens", GgufStrings({"a", "b", "\xe4\xb8\xad"})},
      {"tokenizer.ggml.scores", GgufFloats({0, 1, 2})},
      {"tokenizer.ggml.token_type", GgufInts({1, 1, 3})}};
  const auto zeros = [](size_t size) { return std::string(size, '\0'); };
  return {GgufBytes({.keys = keys,
                     .tensors = {{"a", 0, {3, 2}, zeros(24), {}},
                                 {"b", 1, {4}, zeros(8), {}},
                                 {"c", 8, {32, 2}, zeros(68), {}}}}),
          GgufBytes({.version = 2,
                     .tensors = {{"q4", 2, {32}, zeros(18), {}},
                                 {"q4k", 12, {256}, zeros(144), {}},
                                 {"q5k", 13, {256}, zeros(176), {}},
                                 {"q6k", 14, {256}, zeros(210), {}},
                                 {"iq4", 23, {256}, zeros(136), {}}}})};
}
