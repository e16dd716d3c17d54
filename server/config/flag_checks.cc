#include "server/config/flag_checks.h"

#include "absl/strings/numbers.h"

namespace fermata {

absl::Status RefuseFlag(std::string_view flag, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", absl::string_view(flag.data(), flag.size()), ": ", why));
}

absl::Status CheckInt(std::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return RefuseFlag(flag, absl::StrCat("must be in [", low, ", ", high, "], got ", value));
}

absl::Status CheckDuration(std::string_view flag, absl::Duration value, absl::Duration low,
                           absl::Duration high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return RefuseFlag(
      flag, absl::StrCat("must be in [", absl::FormatDuration(low), ", ",
                         absl::FormatDuration(high), "], got ", absl::FormatDuration(value)));
}

absl::Status CheckAddress(std::string_view flag, const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  const bool bracketed = !address.empty() && address.front() == '[';
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535 ||
      (bracketed ? address[colon - 1] != ']' : address.find(':') != colon)) {
    return RefuseFlag(flag, absl::StrCat("must be HOST:PORT with a port in [0, 65535] (IPv6: "
                                         "[HOST]:PORT), got '",
                                         address, "'"));
  }
  return absl::OkStatus();
}

}  // namespace fermata
