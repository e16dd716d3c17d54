#ifndef FERMATA_SERVER_HTTP_HTTP_ERROR_H_
#define FERMATA_SERVER_HTTP_HTTP_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "server/http/message.h"

namespace fermata {

// Errors as clients of OpenAI's API read them, with all that gRPC's carry:
//
//   {"error": {"message": …, "type": …, "param": the field or null, "code": the reason,
//              "metadata": {…}}}
//
// The status follows the code and the reason; 409, 429 and 503 come with Retry-After (and
// retry-after-ms) where the same request may succeed later, and every status that clients would retry
// on their own with x-should-retry: false where it can not.

// The HTTP status for `status`, which is not OK.
int HttpStatusOf(const absl::Status& status);

HttpResponse ErrorResponse(const absl::Status& status);

// Only the body, for errors inside a stream.
nlohmann::ordered_json ErrorBody(const absl::Status& status);

// For what HTTP alone knows.
HttpResponse HttpError(int status, std::string_view reason, std::string_view message);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_HTTP_ERROR_H_
