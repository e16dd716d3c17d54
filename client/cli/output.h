#ifndef FERMATA_CLIENT_CLI_OUTPUT_H_
#define FERMATA_CLIENT_CLI_OUTPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/models.pb.h"
#include "fermata/v1/session.pb.h"
#include "google/protobuf/message.h"

namespace fermata::cli {

// `message` as one line of JSON, without the newline, by Protocol Buffers' own mapping.
std::string ToJson(const google::protobuf::Message& message);
// {"error": …}, as the help of the command documents it.
std::string ErrorJson(const absl::Status& status);

// 1234567 as "1,234,567".
std::string Grouped(int64_t number);
// "3.2 times" or so; how a KV cache of `kv_bytes` compares with a state of `state_bytes`.
std::string Compared(int64_t kv_bytes, int64_t state_bytes);

// Blocks of text for people, each line ended.
std::string FormatSession(const v1::Session& session);
std::string FormatSessionLine(const v1::Session& session);
std::string FormatCheckpointLine(const v1::CheckpointInfo& checkpoint);
std::string FormatModel(const v1::Model& model);
std::string FormatStats(const v1::Complete& complete);

// Prints an error where the caller's kind of output has it, and returns kExitFailed.
int Fail(const CommonOptions& common, const absl::Status& status, const Io& io);

// The text that `source` names, exactly; nullopt when it names none. NOT_FOUND or UNKNOWN with the
// file's name when it can not be read.
absl::StatusOr<std::optional<std::string>> ReadText(const TextSource& source, std::istream& in);

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_OUTPUT_H_
