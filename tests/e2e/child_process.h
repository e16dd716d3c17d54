#ifndef FERMATA_TESTS_E2E_CHILD_PROCESS_H_
#define FERMATA_TESTS_E2E_CHILD_PROCESS_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace fermata::e2e {

// Waits until `condition` holds, looking again and again; false when it does not within a minute.
bool Eventually(const std::function<bool()>& condition);

// A directory of its own, removed with all that it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string ReadAll(const std::filesystem::path& path);
void WriteAll(const std::filesystem::path& path, const std::string& text);

// Whether the build has this binary: sanitizer builds have no `fermata`.
bool HasBinary(const std::string& name);

// One of the binaries under test, running. Killed and reaped at the end, and when the test dies.
class ChildProcess {
 public:
  // Starts `binary` of the build with `arguments`, and `input` as its standard input.
  ChildProcess(const std::string& binary, const std::vector<std::string>& arguments,
               const std::string& input = "");
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal) const;
  bool running();
  // The exit code, or 128 plus the signal that ended it; nullopt when it does not end in a minute.
  std::optional<int> Wait();
  // What it has written until now.
  std::string output() const { return ReadAll(directory_ / "stdout"); }
  std::string errors() const { return ReadAll(directory_ / "stderr"); }

 private:
  TempDir directory_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_CHILD_PROCESS_H_
