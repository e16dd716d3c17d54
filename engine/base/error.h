#ifndef FERMATA_ENGINE_BASE_ERROR_H_
#define FERMATA_ENGINE_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace fermata {

// What a client can act on without parsing a message. The fronts turn it into google.rpc.ErrorInfo
// and google.rpc.RetryInfo.
struct ErrorDetails {
  std::string reason;                           // UPPER_SNAKE_CASE, stable, e.g. SESSION_NOT_FOUND.
  std::map<std::string, std::string> metadata;  // E.g. {"field", "sampling.top_p"}.
  std::optional<absl::Duration> retry_after;    // Set when the same request may succeed later.
};

// A status that carries `details`.
absl::Status MakeError(absl::StatusCode code, std::string_view message,
                       const ErrorDetails& details);

// INVALID_ARGUMENT with reason INVALID_FIELD and metadata {"field": field}. The message reads
// "<field>: <why>".
absl::Status InvalidField(std::string_view field, std::string_view why);

// The details that MakeError put into `status`; for any other status, a reason named after its code
// and nothing else.
ErrorDetails DetailsOf(const absl::Status& status);

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_ERROR_H_
