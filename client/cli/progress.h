#ifndef FERMATA_CLIENT_CLI_PROGRESS_H_
#define FERMATA_CLIENT_CLI_PROGRESS_H_

#include <chrono>
#include <ostream>
#include <string_view>

namespace fermata::cli {

// A line of a terminal that tells how far something is, drawn over again and again. Where there is
// no terminal it is silent.
class Progress {
 public:
  Progress(std::ostream& terminal, bool is_terminal)
      : terminal_(terminal), is_terminal_(is_terminal) {}
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` is from 0 to 1. Draws at most ten times a second.
  void Show(double share, std::string_view text);

 private:
  std::ostream& terminal_;
  bool is_terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_PROGRESS_H_
