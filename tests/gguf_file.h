#ifndef FERMATA_TESTS_GGUF_FILE_H_
#define FERMATA_TESTS_GGUF_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

// A number's bytes as they lie in files.
template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A string behind its length.
std::string GgufText(std::string_view text);

// Values of metadata behind their type, as docs/gguf.md of ggml numbers them.
std::string GgufUint32(uint32_t value);
std::string GgufFloat32(float value);
std::string GgufBool(bool value);
std::string GgufString(std::string_view value);
std::string GgufStrings(const std::vector<std::string>& values);
std::string GgufInts(const std::vector<int32_t>& values);
std::string GgufFloats(const std::vector<float>& values);
// An array of `count` elements of a type, right or wrong.
std::string GgufArray(uint32_t type, uint64_t count, std::string_view bytes);

struct GgufTensor {
  std::string name;
  uint32_t type;               // ggml's number: 0 is F32, 1 F16, 8 Q8_0, 12 Q4_K, 30 BF16.
  std::vector<uint64_t> dims;  // The fastest first.
  std::string bytes;
  std::optional<uint64_t> offset;  // In the data, where not the next that is aligned.
};

// A GGUF file to be written, right or wrong.
struct GgufSpec {
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<std::pair<std::string, std::string>> keys;  // With values as above.
  std::vector<GgufTensor> tensors;
  std::optional<uint64_t> num_keys;  // What the header says, where not the truth.
  std::optional<uint64_t> num_tensors;
};

std::string GgufBytes(const GgufSpec& spec);

}  // namespace fermata

#endif  // FERMATA_TESTS_GGUF_FILE_H_
