#include "server/config/http_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"
#include "server/config/byte_size.h"
#include "server/config/flag_checks.h"

ABSL_FLAG(std::string, http_address, "127.0.0.1:7412",
          "HOST:PORT that HTTP listens on; port 0 picks a free one.");
ABSL_FLAG(fermata::ByteSize, http_max_header_bytes, fermata::ByteSize{16 << 10},
          "Largest header of a request, in bytes or with KiB, MiB.");
ABSL_FLAG(
    fermata::ByteSize, http_max_body_bytes, fermata::ByteSize{4 << 20},
    "Largest body of a request, but for imports of sessions, in bytes or with KiB, MiB, GiB.");
ABSL_FLAG(int, http_max_connections, 4096, "HTTP connections at a time; more are turned away.");
ABSL_FLAG(absl::Duration, http_idle_timeout, absl::Minutes(1),
          "Silence between two requests after which a connection is closed.");
ABSL_FLAG(absl::Duration, http_read_timeout, absl::Seconds(20),
          "Time that a request's header has to come, and its body, or each part of a long one.");
ABSL_FLAG(absl::Duration, http_write_timeout, absl::Seconds(20),
          "Time that a client has to take what it is sent, before its turn stops.");
ABSL_FLAG(std::string, http_allowed_origins, "",
          "Origins whose pages may ask (CORS), as https://a.example,https://b.example; * is all, "
          "empty none but the server's own page.");

namespace fermata {

absl::StatusOr<HttpOptions> HttpFromFlags() {
  HttpOptions options;
  options.address = absl::GetFlag(FLAGS_http_address);
  FERMATA_RETURN_IF_ERROR(CheckAddress("http_address", options.address));
  const int64_t header = absl::GetFlag(FLAGS_http_max_header_bytes).bytes;
  FERMATA_RETURN_IF_ERROR(CheckInt("http_max_header_bytes", header, 1 << 10, 1 << 20));
  options.max_header_bytes = static_cast<uint32_t>(header);
  const int64_t body = absl::GetFlag(FLAGS_http_max_body_bytes).bytes;
  FERMATA_RETURN_IF_ERROR(CheckInt("http_max_body_bytes", body, 1 << 10, 1 << 30));
  options.max_body_bytes = static_cast<uint64_t>(body);
  options.max_connections = absl::GetFlag(FLAGS_http_max_connections);
  FERMATA_RETURN_IF_ERROR(CheckInt("http_max_connections", options.max_connections, 1, 1 << 20));
  options.idle_timeout = absl::GetFlag(FLAGS_http_idle_timeout);
  options.read_timeout = absl::GetFlag(FLAGS_http_read_timeout);
  options.write_timeout = absl::GetFlag(FLAGS_http_write_timeout);
  for (const auto& [flag, timeout] : {std::pair{"http_idle_timeout", options.idle_timeout},
                                      std::pair{"http_read_timeout", options.read_timeout},
                                      std::pair{"http_write_timeout", options.write_timeout}}) {
    FERMATA_RETURN_IF_ERROR(CheckDuration(flag, timeout, absl::Milliseconds(10), absl::Hours(24)));
  }
  for (const absl::string_view origin :
       absl::StrSplit(absl::GetFlag(FLAGS_http_allowed_origins), ',', absl::SkipEmpty())) {
    const size_t scheme = origin.find("://");
    if (origin != "*" && (scheme == absl::string_view::npos || scheme == 0 ||
                          origin.find('/', scheme + 3) != absl::string_view::npos)) {
      return RefuseFlag(
          "http_allowed_origins",
          absl::StrCat("must be * or origins such as https://a.example, got '", origin, "'"));
    }
    options.allowed_origins.emplace_back(origin);
  }
  return options;
}

}  // namespace fermata
