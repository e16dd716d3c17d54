#ifndef FERMATA_TESTS_FILES_H_
#define FERMATA_TESTS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fermata {

// A tensor to be written to a .safetensors file.
struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

FileTensor F32Tensor(std::string name, std::vector<int64_t> shape,
                     const std::vector<float>& values);
// The tensor's values rounded towards zero to BF16, which takes the upper half of a float32.
FileTensor Bf16Tensor(std::string name, std::vector<int64_t> shape,
                      const std::vector<float>& values);

// A .safetensors file of any header and data, right or wrong.
std::string FileBytes(std::string_view header, std::string_view data);
// A right one, with the tensors' data in the order given.
std::string FileBytes(const std::vector<FileTensor>& tensors);

// The tensors of a .safetensors file that is right, in the order of their data.
std::vector<FileTensor> ReadTensors(const std::filesystem::path& file);

// A fresh directory that is removed with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

std::string ReadBytes(const std::filesystem::path& path);

}  // namespace fermata

#endif  // FERMATA_TESTS_FILES_H_
