#include "engine/base/mapped_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = testing::TempDir() + "mapped_file_test_" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
};

TEST_F(MappedFileTest, HoldsTheBytes) {
  const std::string bytes("a\0b\xff", 4);
  const std::string path = Write("bytes", bytes);
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text(), bytes);
  EXPECT_EQ(file->path(), path);
  EXPECT_EQ(*ReadFile(path), bytes);
  // A mapping outlives the file's name.
  std::filesystem::remove(path);
  const MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.text(), bytes);
}

TEST_F(MappedFileTest, AnEmptyFileIsEmpty) {
  const auto file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, AssignmentReplaces) {
  auto a = MappedFile::Open(Write("a", "first"));
  auto b = MappedFile::Open(Write("b", "second"));
  ASSERT_TRUE(a.ok() && b.ok());
  *a = *std::move(b);
  EXPECT_EQ(a->text(), "second");
}

TEST_F(MappedFileTest, ErrorsNameThePath) {
  const std::string missing = testing::TempDir() + "no such file";
  const auto status = MappedFile::Open(missing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(missing));
  EXPECT_EQ(ReadFile(missing).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Of files, in this process's memory.
int64_t ResidentFileBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssFile:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib << 10;
  }
  return -1;
}

TEST_F(MappedFileTest, WhatIsReleasedLeavesMemoryAndComesBack) {
  constexpr int64_t kSize = 32 << 20;
  std::string bytes(kSize, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 7);
  const auto file = MappedFile::Open(Write("release", bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->text() == bytes);
  const int64_t all = ResidentFileBytes();
  file->Release(file->bytes().subspan(1, kSize / 2));
  EXPECT_NEAR(static_cast<double>(all - ResidentFileBytes()), kSize / 2, kSize / 8);
  file->Release(file->bytes());
  EXPECT_NEAR(static_cast<double>(all - ResidentFileBytes()), kSize, kSize / 8);
  EXPECT_TRUE(file->text() == bytes);
  EXPECT_NEAR(static_cast<double>(all - ResidentFileBytes()), 0, kSize / 8);
  // Parts with no whole page, and none at all.
  file->Release(file->bytes().subspan(5, 100));
  file->Release(file->bytes().subspan(7, 0));
  EXPECT_EQ(file->text().substr(0, 200), bytes.substr(0, 200));
}

}  // namespace
}  // namespace fermata
