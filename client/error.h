#ifndef FERMATA_CLIENT_ERROR_H_
#define FERMATA_CLIENT_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace fermata::client {

// What a program can act on without parsing a message: google.rpc.ErrorInfo and RetryInfo of the
// server's answer. The services' .proto files list the reasons.
struct ErrorDetails {
  std::string reason;                           // E.g. "SESSION_NOT_FOUND"; empty: the server gave
                                                // none, as when it could not be reached.
  std::string domain;                           // "fermata" for errors of Fermata's own.
  std::map<std::string, std::string> metadata;  // E.g. {"field", "sampling.top_p"}.
  std::optional<absl::Duration> retry_after;    // The same request may succeed after this.
};

// The status of a call, with the details of its trailer grpc-status-details-bin as payloads.
// Details that can not be decoded are left out.
absl::Status FromGrpc(const grpc::Status& status);

// The details that FromGrpc kept; all empty where there are none.
ErrorDetails DetailsOf(const absl::Status& status);

// One line for people: code, message, and reason and time to retry where there are any.
std::string Describe(const absl::Status& status);

}  // namespace fermata::client

#endif  // FERMATA_CLIENT_ERROR_H_
