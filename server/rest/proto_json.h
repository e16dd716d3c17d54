#ifndef FERMATA_SERVER_REST_PROTO_JSON_H_
#define FERMATA_SERVER_REST_PROTO_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace fermata {

// Fills `message`, which is empty, with what `text` says in Protobuf's JSON mapping; an empty text says
// nothing. INVALID_ARGUMENT names the field that does not fit or that there is not; with reason
// INVALID_JSON for a text that is no JSON object or is nested too deeply.
absl::Status FromJson(std::string_view text, google::protobuf::Message* message);

// INVALID_ARGUMENT for a name that is the client's own, of which the error, which is logged, quotes the
// beginning alone.
absl::Status UnknownName(std::string_view name, std::string_view why);

// In Protobuf's JSON mapping on one line, with the fields' own names. Fields without presence are there
// always, those with it only when they are set.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace fermata

#endif  // FERMATA_SERVER_REST_PROTO_JSON_H_
