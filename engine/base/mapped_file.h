#ifndef FERMATA_ENGINE_BASE_MAPPED_FILE_H_
#define FERMATA_ENGINE_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// A whole file, mapped read-only. The bytes stay valid for the object's life. The file must not be
// truncated meanwhile: replace it by renaming, as every well-behaved writer does.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, … as the system says; the message names the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  const std::string& path() const { return path_; }
  // Takes the pages that lie wholly in `part`, which is of bytes(), out of the process's memory. They
  // come back when they are read again, as a rule from the system's cache of files.
  void Release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

// The contents of a (small) file as a string.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_MAPPED_FILE_H_
