#include "engine/base/file_system.h"

#include <cerrno>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

absl::Status SystemError(int error, const std::string& path) {
  ErrorDetails details;
  details.metadata = {{"path", path}};
  auto code = absl::StatusCode::kUnavailable;
  details.reason = "DISK_FAILED";
  if (error == ENOENT) {
    code = absl::StatusCode::kNotFound;
    details.reason = "FILE_NOT_FOUND";
  } else if (error == EEXIST) {
    code = absl::StatusCode::kAlreadyExists;
    details.reason = "FILE_EXISTS";
  } else if (error == ENOSPC || error == EDQUOT) {
    code = absl::StatusCode::kResourceExhausted;
    details.reason = "DISK_FULL";
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    code = absl::StatusCode::kPermissionDenied;
    details.reason = "DISK_PERMISSION";
  }
  const std::string why(absl::ErrnoToStatus(error, "").message());
  return MakeError(code, absl::StrCat(path, why), details);
}

// Calls `call` until no signal interrupts it.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<Descriptor> OpenDescriptor(const std::string& path, int flags) {
  Descriptor descriptor(Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, 0600); }));
  if (descriptor.get() < 0) return SystemError(errno, path);
  return descriptor;
}

class PosixOutputFile : public OutputFile {
 public:
  PosixOutputFile(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  absl::Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          Retry([&] { return pwrite(descriptor_.get(), bytes.data(), bytes.size(), offset_); });
      if (written < 0) return SystemError(errno, path_);
      offset_ += written;
      bytes = bytes.subspan(written);
    }
    return absl::OkStatus();
  }

  void StartSync() override { sync_file_range(descriptor_.get(), 0, 0, SYNC_FILE_RANGE_WRITE); }

  absl::Status Sync() override {
    if (Retry([&] { return fdatasync(descriptor_.get()); }) != 0) return SystemError(errno, path_);
    return absl::OkStatus();
  }

 private:
  Descriptor descriptor_;
  std::string path_;
  off_t offset_ = 0;
};

// flock's locks belong to the open file, not to the process: opened twice, they keep out one another
// within a process as well.
class PosixLock : public DirectoryLock {
 public:
  explicit PosixLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  Descriptor descriptor_;
};

class Posix : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path) override {
    FERMATA_ASSIGN_OR_RETURN(Descriptor descriptor,
                             OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL));
    return std::make_unique<PosixOutputFile>(std::move(descriptor), path);
  }

  absl::StatusOr<int64_t> Size(const std::string& path) const override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return SystemError(errno, path);
    return info.st_size;
  }

  absl::StatusOr<size_t> Read(const std::string& path, int64_t offset,
                              std::span<std::byte> bytes) const override {
    FERMATA_ASSIGN_OR_RETURN(const Descriptor descriptor, OpenDescriptor(path, O_RDONLY));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = Retry([&] {
        return pread(descriptor.get(), bytes.data() + done, bytes.size() - done,
                     offset + static_cast<off_t>(done));
      });
      if (count < 0) return SystemError(errno, path);
      if (count == 0) break;
      done += count;
    }
    return done;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return SystemError(errno, from);
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return SystemError(errno, path);
    return absl::OkStatus();
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    return SystemError(error, path);
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) != 0) return SystemError(errno, path);
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    FERMATA_ASSIGN_OR_RETURN(const Descriptor descriptor,
                             OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (Retry([&] { return fsync(descriptor.get()); }) != 0) return SystemError(errno, path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Entry>> List(const std::string& directory) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
    if (stream == nullptr) return SystemError(errno, directory);
    std::vector<Entry> entries;
    while (true) {
      errno = 0;
      const dirent* entry = readdir(stream.get());
      if (entry == nullptr) break;
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      bool is_directory = entry->d_type == DT_DIR;
      if (entry->d_type == DT_UNKNOWN) {  // Some file systems do not tell.
        struct stat info;
        is_directory = lstat((directory + "/" + name).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
      }
      entries.push_back({.name = std::move(name), .is_directory = is_directory});
    }
    if (errno != 0) return SystemError(errno, directory);
    return entries;
  }

  absl::StatusOr<int64_t> FreeBytes(const std::string& directory) const override {
    struct statvfs info;
    if (Retry([&] { return statvfs(directory.c_str(), &info); }) != 0) {
      return SystemError(errno, directory);
    }
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }

  absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override {
    FERMATA_ASSIGN_OR_RETURN(Descriptor descriptor,
                             OpenDescriptor(directory + "/LOCK", O_RDWR | O_CREAT));
    if (Retry([&] { return flock(descriptor.get(), LOCK_EX | LOCK_NB); }) == 0) {
      return std::make_unique<PosixLock>(std::move(descriptor));
    }
    if (errno != EWOULDBLOCK) return SystemError(errno, directory);
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        directory + ": another server has this directory open",
        {.reason = "DIRECTORY_LOCKED", .metadata = {{"path", directory}}, .retry_after = {}});
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static auto& files = *new Posix;
  return files;
}

}  // namespace fermata
