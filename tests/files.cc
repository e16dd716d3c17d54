#include "tests/files.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "nlohmann/json.hpp"

namespace fermata {

FileTensor F32Tensor(std::string name, std::vector<int64_t> shape,
                     const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {std::move(name), "F32", std::move(shape), std::move(bytes)};
}

FileTensor Bf16Tensor(std::string name, std::vector<int64_t> shape,
                      const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
  return {std::move(name), "BF16", std::move(shape), std::move(bytes)};
}

std::string FileBytes(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file.append(header);
  file.append(data);
  return file;
}

std::string FileBytes(const std::vector<FileTensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const FileTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return FileBytes(header.dump(), data);
}

std::vector<FileTensor> ReadTensors(const std::filesystem::path& file) {
  const std::string bytes = ReadBytes(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  std::vector<std::pair<size_t, FileTensor>> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry.at("data_offsets").at(0).get<size_t>();
    const auto end = entry.at("data_offsets").at(1).get<size_t>();
    tensors.push_back(
        {begin,
         {name, entry.at("dtype").get<std::string>(), entry.at("shape").get<std::vector<int64_t>>(),
          bytes.substr(sizeof(length) + length + begin, end - begin)}});
  }
  std::ranges::sort(tensors, {}, [](const auto& tensor) { return tensor.first; });
  std::vector<FileTensor> result;
  for (auto& [begin, tensor] : tensors) result.push_back(std::move(tensor));
  return result;
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "fermata-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TempDir::~TempDir() { std::filesystem::remove_all(path_); }

void TempDir::Write(const std::string& name, std::string_view bytes) const {
  std::ofstream file(path_ / name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("can not write " + name);
}

std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("can not open " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace fermata
