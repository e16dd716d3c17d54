#include "tests/gguf_file.h"

namespace fermata {

std::string GgufText(std::string_view text) {
  return Bytes<uint64_t>(text.size()) + std::string(text);
}

std::string GgufUint32(uint32_t value) { return Bytes<uint32_t>(4) + Bytes(value); }
std::string GgufFloat32(float value) { return Bytes<uint32_t>(6) + Bytes(value); }
std::string GgufBool(bool value) { return Bytes<uint32_t>(7) + Bytes<uint8_t>(value ? 1 : 0); }
std::string GgufString(std::string_view value) { return Bytes<uint32_t>(8) + GgufText(value); }

std::string GgufArray(uint32_t type, uint64_t count, std::string_view bytes) {
  return Bytes<uint32_t>(9) + Bytes(type) + Bytes(count) + std::string(bytes);
}

std::string GgufStrings(const std::vector<std::string>& values) {
  std::string bytes;
  for (const std::string& value : values) bytes += GgufText(value);
  return GgufArray(8, values.size(), bytes);
}

std::string GgufInts(const std::vector<int32_t>& values) {
  std::string bytes;
  for (const int32_t value : values) bytes += Bytes(value);
  return GgufArray(5, values.size(), bytes);
}

std::string GgufFloats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += Bytes(value);
  return GgufArray(6, values.size(), bytes);
}

std::string GgufBytes(const GgufSpec& spec) {
  std::string file = "GGUF" + Bytes(spec.version) +
                     Bytes(spec.num_tensors.value_or(spec.tensors.size())) +
                     Bytes(spec.num_keys.value_or(spec.keys.size()));
  for (const auto& [key, value] : spec.keys) file += GgufText(key) + value;
  const auto pad = [&](std::string& bytes) {
    while (bytes.size() % spec.alignment != 0) bytes += '\0';
  };
  std::string data;
  for (const GgufTensor& tensor : spec.tensors) {
    file += GgufText(tensor.name) + Bytes(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t extent : tensor.dims) file += Bytes(extent);
    file += Bytes(tensor.type) + Bytes(tensor.offset.value_or(data.size()));
    data += tensor.bytes;
    pad(data);
  }
  if (!data.empty()) pad(file);
  return file + data;
}

}  // namespace fermata
