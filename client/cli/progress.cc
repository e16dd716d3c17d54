#include "client/cli/progress.h"

#include <algorithm>
#include <string>

namespace fermata::cli {
namespace {

constexpr int kWidth = 24;
constexpr std::chrono::milliseconds kInterval(100);
constexpr char kWipe[] = "\r\x1b[K";  // To the line's beginning, and erase it.

}  // namespace

Progress::~Progress() {
  if (drawn_) terminal_ << kWipe << std::flush;
}

void Progress::Show(double share, std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || (drawn_ && now - last_ < kInterval)) return;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kWidth);
  terminal_ << kWipe << '[' << std::string(full, '=') << std::string(kWidth - full, ' ') << "] "
            << text << std::flush;
  drawn_ = true;
  last_ = now;
}

}  // namespace fermata::cli
