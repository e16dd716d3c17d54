#ifndef FERMATA_CLIENT_BENCH_LINES_H_
#define FERMATA_CLIENT_BENCH_LINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace fermata::bench {

// The lines of a text, without what ends them.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  std::optional<std::string_view> Next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  // Of the line that Next gave last, from 1.
  int64_t number() const { return number_; }
  absl::Status Error(const std::string& source, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(source, ": line ", number_, ": ", why));
  }

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_LINES_H_
