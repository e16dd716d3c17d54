#ifndef FERMATA_CLIENT_CLI_SCORE_H_
#define FERMATA_CLIENT_CLI_SCORE_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/cli/arguments.h"
#include "fermata/v1/generation.pb.h"

namespace fermata::cli {

// The texts between the lines of `text` that hold only `separator`, without the newlines around
// those lines; empty ones are left out.
std::vector<std::string_view> SplitRecords(std::string_view text, std::string_view separator);

// The requests that score `text` as `command` says: one a record.
std::vector<v1::ScoreRequest> ScoreRequests(const ScoreCommand& command, std::string_view text);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_SCORE_H_
