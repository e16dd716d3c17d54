#include "client/cli/output.h"

#include <fstream>
#include <iterator>
#include <utility>

#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/error.h"

namespace fermata::cli {
namespace {

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

std::string Short(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(
      duration, duration < absl::Seconds(1) ? absl::Microseconds(100) : absl::Milliseconds(10)));
}

std::string FormatTime(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%SZ", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

std::string LabelsOf(const v1::Session& session) {
  const std::map<std::string, std::string> sorted(session.labels().begin(), session.labels().end());
  std::string out;
  for (const auto& [key, value] : sorted) {
    absl::StrAppend(&out, out.empty() ? "" : " ", key, "=", value);
  }
  return out;
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string out;
  // Our messages have no Any, and nothing else can fail.
  (void)google::protobuf::util::MessageToJsonString(message, &out, options);
  return out;
}

std::string ErrorJson(const absl::Status& status) {
  const client::ErrorDetails details = client::DetailsOf(status);
  nlohmann::ordered_json error;
  error["code"] = absl::StatusCodeToString(status.code());
  error["message"] = std::string(status.message());
  error["reason"] = details.reason;
  error["metadata"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : details.metadata) error["metadata"][key] = value;
  if (details.retry_after) {
    error["retry_after_seconds"] = absl::ToDoubleSeconds(*details.retry_after);
  }
  return nlohmann::ordered_json{{"error", error}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  const int64_t first = number < 0 ? 1 : 0;
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string Compared(int64_t kv_bytes, int64_t state_bytes) {
  if (state_bytes <= 0) return "no state";
  return absl::StrFormat("%.1f times the state",
                         static_cast<double>(kv_bytes) / static_cast<double>(state_bytes));
}

std::string FormatSession(const v1::Session& session) {
  std::string out = absl::StrFormat("session        %s\nposition       %s\n", session.id(),
                                    Grouped(session.position()));
  absl::StrAppend(&out, "pending token  ",
                  session.has_pending_token() ? absl::StrCat(session.pending_token()) : "none",
                  "\nturns          ", Grouped(session.turns()), "\nstate          ",
                  Grouped(session.state_bytes()), " bytes, at every position\nKV equivalent  ",
                  Grouped(session.kv_equivalent_bytes()), " bytes, ",
                  Compared(session.kv_equivalent_bytes(), session.state_bytes()),
                  "\ncreated        ", FormatTime(session.create_time()), "\nupdated        ",
                  FormatTime(session.update_time()), "\ntime to live   ",
                  session.has_time_to_live()
                      ? absl::FormatDuration(ToDuration(session.time_to_live()))
                      : "until deleted or evicted",
                  "\n");
  absl::StrAppend(&out, "durability     ", session.durability() == v1::DISK ? "disk" : "memory",
                  "\nrevision       ", Grouped(static_cast<int64_t>(session.revision())),
                  "\ncheckpoints    ", session.checkpoints(), " of at most ",
                  session.max_checkpoints(), "\n");
  if (session.pinned()) out += "pinned         yes: a template, to be forked\n";
  if (!session.parent_id().empty()) {
    absl::StrAppend(&out, "forked from    ", session.parent_id(), " at position ",
                    Grouped(session.parent_position()), "\n");
  }
  if (!session.labels().empty()) {
    absl::StrAppend(&out, "labels         ", LabelsOf(session), "\n");
  }
  return out;
}

std::string FormatCheckpointLine(const v1::CheckpointInfo& checkpoint) {
  return absl::StrFormat("%6s turns  %12s tokens  %s\n", Grouped(checkpoint.turns()),
                         Grouped(checkpoint.position()), FormatTime(checkpoint.time()));
}

std::string FormatSessionLine(const v1::Session& session) {
  return absl::StrFormat("%-32s  %12s tokens  %6s turns  %s  %s\n", session.id(),
                         Grouped(session.position()), Grouped(session.turns()),
                         FormatTime(session.update_time()), LabelsOf(session));
}

std::string FormatModel(const v1::Model& model) {
  std::string eos;
  for (const int32_t id : model.eos_token_ids()) absl::StrAppend(&eos, eos.empty() ? "" : " ", id);
  std::string out =
      absl::StrCat("model          ", model.name(), "\nfamily         ", model.family(),
                   "\nfingerprint    ", model.fingerprint(), "\nparameters     ",
                   Grouped(model.parameters()), " (", model.weights_dtype(), ")\nlayers         ",
                   model.num_layers(), "\nhidden size    ", model.hidden_size());
  absl::StrAppend(&out, "\nvocabulary     ", Grouped(model.vocab_size()), " (", model.tokenizer(),
                  ")\nend of text    ", eos.empty() ? "none" : eos, "\n");
  if (model.fixed_size_state()) {
    absl::StrAppend(&out, "state          ", Grouped(model.state_bytes()),
                    " bytes a session, at every position\n");
  } else {
    absl::StrAppend(&out, "state          grows with every token: no sessions\n");
  }
  absl::StrAppend(&out, "KV equivalent  ", Grouped(model.kv_equivalent_bytes_per_token()),
                  " bytes for each token in float32\nbreak-even     ",
                  Grouped(model.break_even_tokens()),
                  " tokens: from there on the KV cache would be the larger one\n");
  for (const std::string& remark : model.remarks()) {
    absl::StrAppend(&out, "remark         ", remark, "\n");
  }
  return out;
}

std::string FormatStats(const v1::Complete& complete) {
  const v1::Timings& timings = complete.timings();
  const absl::Duration decode = ToDuration(timings.decode());
  const int32_t generated = complete.usage().generated_tokens();
  std::string out = absl::StrCat(
      v1::FinishReason_Name(complete.finish_reason()), ": ",
      Grouped(complete.usage().prompt_tokens()), " prompt tokens",
      complete.usage().cached_tokens() == 0
          ? ""
          : absl::StrCat(" (", Grouped(complete.usage().cached_tokens()), " cached)"),
      ", ", Grouped(generated), " generated; queue ", Short(ToDuration(timings.queue())),
      ", prefill ", Short(ToDuration(timings.prefill())));
  if (timings.has_time_to_first_token()) {
    absl::StrAppend(&out, ", first token ", Short(ToDuration(timings.time_to_first_token())));
  }
  // The first token comes at the end of the prefill; the others are the decoding's.
  if (generated > 1 && decode > absl::ZeroDuration()) {
    absl::StrAppend(
        &out, absl::StrFormat(", %.1f tokens/s", (generated - 1) / absl::ToDoubleSeconds(decode)));
  }
  absl::StrAppend(&out, "; seed ", complete.seed(), "\n");
  if (complete.has_session()) {
    const v1::SessionAfter& session = complete.session();
    absl::StrAppend(&out, "session ", session.id(), " at position ", Grouped(session.position()),
                    ": state ", Grouped(session.state_bytes()), " bytes; KV equivalent ",
                    Grouped(session.kv_equivalent_bytes()), " bytes, ",
                    Compared(session.kv_equivalent_bytes(), session.state_bytes()), "\n");
  }
  return out;
}

int Fail(const CommonOptions& common, const absl::Status& status, const Io& io) {
  if (common.json) io.out << ErrorJson(status) << std::endl;
  io.err << "fermata: " << client::Describe(status) << "\n";
  if (absl::IsUnavailable(status) && client::DetailsOf(status).reason.empty()) {
    io.err << "Is fermata-server running at " << common.server
           << "? (--server or FERMATA_SERVER names another)\n";
  }
  return kExitFailed;
}

absl::StatusOr<std::optional<std::string>> ReadText(const TextSource& source, std::istream& in) {
  const bool from_stdin = source.file == "-" || (!source.file && source.argument == "-");
  if (!from_stdin && !source.file) return source.argument;
  std::ifstream file;
  if (!from_stdin) {
    file.open(*source.file, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat("can not open ", *source.file));
  }
  std::istream& stream = from_stdin ? in : file;
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) {
    return absl::UnknownError(absl::StrCat("can not read ", source.file.value_or("-")));
  }
  return std::optional<std::string>(std::move(text));
}

}  // namespace fermata::cli
