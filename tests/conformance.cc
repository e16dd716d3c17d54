#include "tests/conformance.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "tests/files.h"

namespace fermata {
namespace {

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float FromHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<float> Decode(std::string_view bytes, const std::string& type) {
  const size_t width = type == "F32" ? 4 : 2;
  std::vector<float> values(bytes.size() / width);
  for (size_t i = 0; i < values.size(); ++i) {
    const char* at = bytes.data() + i * width;
    if (type == "F32") {
      values[i] = Load<float>(at);
    } else if (type == "BF16") {
      values[i] = std::bit_cast<float>(uint32_t{Load<uint16_t>(at)} << 16);
    } else if (type == "F16") {
      values[i] = FromHalf(Load<uint16_t>(at));
    } else {
      throw std::runtime_error("unexpected type " + type);
    }
  }
  return values;
}

}  // namespace

std::optional<std::filesystem::path> ConformanceDir() {
  std::filesystem::path folder;
  if (const char* named = std::getenv("FERMATA_CONFORMANCE")) {
    folder = named;
  } else if (const char* source = std::getenv("FERMATA_SOURCE_DIR")) {
    folder = std::filesystem::path(source) / "../shared/conformance";
  } else {
    folder = std::filesystem::path(FERMATA_TESTS_SOURCE_DIR) / "../shared/conformance";
  }
  if (!std::filesystem::exists(folder / "index.json")) return std::nullopt;
  return folder;
}

std::map<std::string, TestTensor> ReadSafetensors(const std::filesystem::path& path) {
  const std::string bytes = ReadBytes(path);
  const auto header_size = Load<uint64_t>(bytes.data());
  const auto header = nlohmann::json::parse(std::string_view(bytes).substr(8, header_size));
  std::map<std::string, TestTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry.at("data_offsets").at(0).get<size_t>();
    const auto end = entry.at("data_offsets").at(1).get<size_t>();
    tensors[name] = {
        .shape = entry.at("shape").get<std::vector<int64_t>>(),
        .values = Decode(std::string_view(bytes).substr(8 + header_size + begin, end - begin),
                         entry.at("dtype").get<std::string>())};
  }
  return tensors;
}

nlohmann::json ReadJson(const std::filesystem::path& path) {
  return nlohmann::json::parse(ReadBytes(path));
}

}  // namespace fermata
