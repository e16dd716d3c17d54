#ifndef FERMATA_SERVER_CONFIG_HTTP_FLAGS_H_
#define FERMATA_SERVER_CONFIG_HTTP_FLAGS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fermata {

struct HttpOptions {
  std::string address;  // HOST:PORT; port 0 picks a free one.
  uint32_t max_header_bytes = 16 << 10;
  uint64_t max_body_bytes = 4 << 20;                 // Of those that are read whole.
  int max_connections = 4096;                        // More are turned away.
  absl::Duration idle_timeout = absl::Minutes(1);    // Between a connection's requests.
  absl::Duration read_timeout = absl::Seconds(20);   // For a header, and for a body or each part.
  absl::Duration write_timeout = absl::Seconds(20);  // For what was sent to be taken.
  // Of pages that may ask, as "https://example.org"; "*" is all.
  std::vector<std::string> allowed_origins;
};

inline constexpr std::array<std::string_view, 8> kHttpFlags = {
    "http_address",      "http_max_header_bytes", "http_max_body_bytes", "http_max_connections",
    "http_idle_timeout", "http_read_timeout",     "http_write_timeout",  "http_allowed_origins"};

// As the flags say. INVALID_ARGUMENT naming the flag and the reason.
absl::StatusOr<HttpOptions> HttpFromFlags();

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_HTTP_FLAGS_H_
