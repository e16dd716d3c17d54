#ifndef FERMATA_TESTS_ENGINE_TOKENIZER_TEST_FILES_H_
#define FERMATA_TESTS_ENGINE_TOKENIZER_TEST_FILES_H_

#include <filesystem>
#include <string>

namespace fermata {

// A directory of the running test's own, empty at first, that goes with it.
class TestDirectory {
 public:
  TestDirectory();
  ~TestDirectory();
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  std::string path() const { return path_.string(); }
  void Write(const std::string& name, const std::string& text) const;
  void Link(const std::string& name, const std::filesystem::path& target) const;

 private:
  std::filesystem::path path_;
};

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_TOKENIZER_TEST_FILES_H_
