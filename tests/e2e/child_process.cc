#include "tests/e2e/child_process.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fermata::e2e {
namespace {

std::string BinaryPath(const std::string& name) {
  const char* build = std::getenv("FERMATA_BINARY_DIR");
  if (build == nullptr) throw std::runtime_error("FERMATA_BINARY_DIR is not set: run by ctest");
  return (std::filesystem::path(build) / "bin" / name).string();
}

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void Exec(const std::vector<char*>& argv, const std::string& input,
                       const std::string& output, const std::string& errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A job in the background of a shell is started with SIGINT ignored.
  signal(SIGINT, SIG_DFL);
  const int in = open(input.c_str(), O_RDONLY);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int err = open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (in < 0 || out < 0 || err < 0) _exit(126);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

bool HasBinary(const std::string& name) { return std::filesystem::exists(BinaryPath(name)); }

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "fermata-e2e-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("can not make " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteAll(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

ChildProcess::ChildProcess(const std::string& binary, const std::vector<std::string>& arguments,
                           const std::string& input) {
  WriteAll(directory_ / "stdin", input);
  const std::string path = BinaryPath(binary);
  const std::string in = directory_ / "stdin";
  const std::string out = directory_ / "stdout";
  const std::string err = directory_ / "stderr";
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) Exec(argv, in, out, err);
  if (pid_ < 0) throw std::runtime_error("can not fork");
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int signal) const {
  // Once reaped, the number may be another's.
  if (!exit_code_) kill(pid_, signal);
}

bool ChildProcess::running() {
  if (exit_code_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

std::optional<int> ChildProcess::Wait() {
  Eventually([this] { return !running(); });
  return exit_code_;
}

}  // namespace fermata::e2e
