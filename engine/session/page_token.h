#ifndef FERMATA_ENGINE_SESSION_PAGE_TOKEN_H_
#define FERMATA_ENGINE_SESSION_PAGE_TOKEN_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// Where a listing stands: after the id `last`, among the sessions with `labels`. The token names an
// id and no place, so it stays good when sessions come and go, that one included.
std::string EncodePageToken(std::string_view last,
                            const std::map<std::string, std::string>& labels);

// The `last` of a token that EncodePageToken made for the same labels; INVALID_ARGUMENT, naming
// page_token, for any other text. Empty for an empty token.
absl::StatusOr<std::string> DecodePageToken(std::string_view token,
                                            const std::map<std::string, std::string>& labels);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_PAGE_TOKEN_H_
