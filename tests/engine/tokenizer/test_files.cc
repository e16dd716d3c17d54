#include "tests/engine/tokenizer/test_files.h"

#include <atomic>
#include <fstream>

#include <unistd.h>

#include "gtest/gtest.h"

namespace fermata {

TestDirectory::TestDirectory() {
  static std::atomic<int> count = 0;
  path_ = std::filesystem::path(testing::TempDir()) /
          ("tokenizer_test." + std::to_string(getpid()) + "." + std::to_string(count++));
  std::filesystem::create_directories(path_);
}

TestDirectory::~TestDirectory() { std::filesystem::remove_all(path_); }

void TestDirectory::Write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
}

void TestDirectory::Link(const std::string& name, const std::filesystem::path& target) const {
  std::filesystem::create_symlink(std::filesystem::absolute(target), path_ / name);
}

}  // namespace fermata
