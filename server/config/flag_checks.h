#ifndef FERMATA_SERVER_CONFIG_FLAG_CHECKS_H_
#define FERMATA_SERVER_CONFIG_FLAG_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

// What flags may be. Every error is INVALID_ARGUMENT and names the flag.

namespace fermata {

absl::Status RefuseFlag(std::string_view flag, const std::string& why);

absl::Status CheckInt(std::string_view flag, int64_t value, int64_t low, int64_t high);

absl::Status CheckDuration(std::string_view flag, absl::Duration value, absl::Duration low,
                           absl::Duration high);

// HOST:PORT, or [HOST]:PORT for IPv6.
absl::Status CheckAddress(std::string_view flag, const std::string& address);

// One of a few names, as the value that stands for it.
template <typename Value, size_t kCount>
absl::StatusOr<Value> Choose(std::string_view flag, const std::string& name,
                             const std::pair<const char*, Value> (&choices)[kCount]) {
  std::string names;
  for (const auto& [choice, value] : choices) {
    if (name == choice) return value;
    absl::StrAppend(&names, names.empty() ? "" : ", ", choice);
  }
  return RefuseFlag(flag, absl::StrCat("must be one of ", names, "; got '", name, "'"));
}

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_FLAG_CHECKS_H_
