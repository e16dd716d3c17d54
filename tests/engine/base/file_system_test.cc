#include "engine/base/file_system.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using testing::UnorderedElementsAre;

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class FileSystemTest : public testing::Test {
 protected:
  FileSystemTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  ~FileSystemTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, std::string_view bytes) {
    auto file = files_.Create(Path(name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Append(AsBytes(bytes)).ok());
  }
  std::string Read(const std::string& name, int64_t offset = 0, size_t most = 1 << 20) {
    std::string bytes(most, '?');
    const auto count =
        files_.Read(Path(name), offset, std::as_writable_bytes(std::span(bytes.data(), most)));
    EXPECT_TRUE(count.ok()) << count.status();
    return bytes.substr(0, count.value_or(0));
  }

  FileSystem& files_ = PosixFileSystem();
  std::string directory_ = testing::TempDir() + "file_system_test_" + std::to_string(getpid());
};

TEST_F(FileSystemTest, AppendsAreReadBackFromAnyOffset) {
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append(AsBytes("one")).ok());
  (*file)->StartSync();
  EXPECT_TRUE((*file)->Append(AsBytes("")).ok());
  EXPECT_TRUE((*file)->Append(AsBytes("two")).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(Read("a"), "onetwo");
  EXPECT_EQ(Read("a", 2, 2), "et");
  EXPECT_EQ(Read("a", 4), "wo");
  EXPECT_EQ(Read("a", 6), "");
  EXPECT_EQ(Read("a", 100), "");
  EXPECT_EQ(*files_.Size(Path("a")), 6);
}

TEST_F(FileSystemTest, CreateNeedsAFreeName) {
  Write("a", "kept");
  const auto again = files_.Create(Path("a"));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_THAT(std::string(again.status().message()), testing::HasSubstr(Path("a")));
  EXPECT_EQ(Read("a"), "kept");
}

TEST_F(FileSystemTest, RenameTakesThePlaceOfWhatIsThere) {
  Write("a", "new");
  Write("b", "old");
  EXPECT_TRUE(files_.Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Read("b"), "new");
  EXPECT_TRUE(absl::IsNotFound(files_.Size(Path("a")).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Rename(Path("a"), Path("c"))));
}

TEST_F(FileSystemTest, WhatIsNotThereIsNotFound) {
  std::byte byte;
  EXPECT_TRUE(absl::IsNotFound(files_.Read(Path("x"), 0, {&byte, 1}).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Remove(Path("x"))));
  EXPECT_TRUE(absl::IsNotFound(files_.List(Path("x")).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.SyncDirectory(Path("x"))));
  EXPECT_TRUE(absl::IsNotFound(files_.FreeBytes(Path("x")).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Create(Path("x/y")).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.MakeDirectory(Path("x/y"))));
  EXPECT_TRUE(absl::IsNotFound(files_.Lock(Path("x")).status()));
}

TEST_F(FileSystemTest, DirectoriesAreMadeListedAndSynced) {
  EXPECT_TRUE(files_.MakeDirectory(Path("d")).ok());
  EXPECT_TRUE(files_.MakeDirectory(Path("d")).ok());
  Write("f", "");
  EXPECT_FALSE(files_.MakeDirectory(Path("f")).ok());
  EXPECT_TRUE(files_.SyncDirectory(directory_).ok());
  const auto entries = files_.List(directory_);
  ASSERT_TRUE(entries.ok());
  EXPECT_THAT(*entries,
              UnorderedElementsAre(
                  testing::AllOf(testing::Field(&FileSystem::Entry::name, "d"),
                                 testing::Field(&FileSystem::Entry::is_directory, true)),
                  testing::AllOf(testing::Field(&FileSystem::Entry::name, "f"),
                                 testing::Field(&FileSystem::Entry::is_directory, false))));
  EXPECT_TRUE(files_.Remove(Path("f")).ok());
  EXPECT_FALSE(files_.RemoveDirectory(directory_).ok());
  EXPECT_TRUE(files_.RemoveDirectory(Path("d")).ok());
  EXPECT_TRUE(files_.MakeDirectory(Path("d")).ok());
  EXPECT_EQ(files_.List(directory_)->size(), 1u);
  EXPECT_GT(*files_.FreeBytes(directory_), 0);
}

TEST_F(FileSystemTest, AFailingWriteNamesTheFile) {
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 5, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = (*file)->Append(AsBytes("longer than that"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(DetailsOf(status).reason, "DISK_FAILED");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(Path("a")));
}

TEST_F(FileSystemTest, OneHoldsTheLock) {
  auto lock = files_.Lock(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto second = files_.Lock(directory_);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_EQ(DetailsOf(second.status()).reason, "DIRECTORY_LOCKED");
  // Another process is kept out by the file of that name.
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(Path("LOCK").c_str(), O_RDWR);
    _exit(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  lock->reset();
  EXPECT_TRUE(files_.Lock(directory_).ok());
}

}  // namespace
}  // namespace fermata
