#include <algorithm>
#include <map>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "google/protobuf/duration.pb.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
// Long before the nanoseconds of a snapshot overflow.
constexpr absl::Duration kLongestTtl = absl::Hours(24 * 36500);
constexpr int32_t kDefaultPageSize = 100;

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return InvalidField("request_id",
                        "is longer than " + std::to_string(kMaxRequestIdBytes) + " characters");
  }
  const bool printable = std::ranges::all_of(id, [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (!printable) return InvalidField("request_id", "holds other than printable ASCII characters");
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> ToTtl(const google::protobuf::Duration& proto,
                                     std::string_view field) {
  return ToDuration(proto, field, absl::Seconds(1), kLongestTtl);
}

absl::StatusOr<std::optional<Durability>> ToDurability(v1::Durability proto,
                                                       std::string_view field) {
  switch (proto) {
    case v1::DURABILITY_UNSPECIFIED:
      return std::nullopt;
    case v1::MEMORY:
      return Durability::kMemory;
    case v1::DISK:
      return Durability::kDisk;
    default:
      return InvalidField(field, "is no durability that this server knows");
  }
}

absl::StatusOr<int32_t> ToMaxCheckpoints(int32_t proto, std::string_view field) {
  if (proto >= 0 && proto <= kMaxCheckpoints) return proto;
  return InvalidField(field, "must be in [0, " + std::to_string(kMaxCheckpoints) + "]");
}

// Of any request that has these fields.
template <typename Request>
absl::StatusOr<SessionStore::Expected> ExpectedOf(const Request& request) {
  SessionStore::Expected expected;
  if (request.has_expected_position()) {
    if (request.expected_position() < 0) {
      return InvalidField("expected_position", "must not be negative");
    }
    expected.position = request.expected_position();
  }
  if (request.has_expected_revision()) expected.revision = request.expected_revision();
  return expected;
}

template <typename Labels>
std::map<std::string, std::string> ToMap(const Labels& labels) {
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : labels) map[key] = value;
  return map;
}

absl::StatusOr<SessionStore::BeginOptions> ToBeginOptions(const v1::SessionRef& ref) {
  SessionStore::BeginOptions options;
  options.id = ref.id();
  options.create_if_missing = ref.create_if_missing();
  if (!options.id.empty()) {
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(options.id, "session.id"));
  } else if (!options.create_if_missing) {
    return InvalidField("session.id", "must be given, unless create_if_missing is set");
  }
  if (ref.has_expected_position()) {
    if (ref.expected_position() < 0) {
      return InvalidField("session.expected_position", "must not be negative");
    }
    options.expected_position = ref.expected_position();
  }
  if (ref.has_time_to_live()) {
    FERMATA_ASSIGN_OR_RETURN(options.ttl, ToTtl(ref.time_to_live(), "session.time_to_live"));
  }
  FERMATA_ASSIGN_OR_RETURN(options.durability,
                           ToDurability(ref.durability(), "session.durability"));
  if (ref.has_max_checkpoints()) {
    FERMATA_ASSIGN_OR_RETURN(options.max_checkpoints,
                             ToMaxCheckpoints(ref.max_checkpoints(), "session.max_checkpoints"));
  }
  options.fork_from = ref.fork_from();
  if (!options.fork_from.empty()) {
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(options.fork_from, "session.fork_from"));
    if (!options.create_if_missing) {
      return InvalidField("session.fork_from", "is for sessions that create_if_missing makes");
    }
  }
  return options;
}

absl::Status CheckOnDisconnect(const v1::GenerateRequest& request) {
  if (!v1::OnDisconnect_IsValid(request.on_disconnect())) {
    return InvalidField("on_disconnect", "is no choice that this server knows");
  }
  if (request.on_disconnect() == v1::ON_DISCONNECT_FINISH && request.request_id().empty()) {
    return InvalidField("on_disconnect", "FINISH needs a request_id, to find the turn by");
  }
  return absl::OkStatus();
}

// Ranges are the engine's to check.
SamplingParams ToSampling(const v1::SamplingParams& proto) {
  SamplingParams params;
  if (proto.has_temperature()) params.temperature = proto.temperature();
  if (proto.has_top_k()) params.top_k = proto.top_k();
  if (proto.has_top_p()) params.top_p = proto.top_p();
  if (proto.has_min_p()) params.min_p = proto.min_p();
  if (proto.has_repetition_penalty()) params.repetition_penalty = proto.repetition_penalty();
  if (proto.has_presence_penalty()) params.presence_penalty = proto.presence_penalty();
  if (proto.has_frequency_penalty()) params.frequency_penalty = proto.frequency_penalty();
  if (proto.has_penalty_window()) params.penalty_window = proto.penalty_window();
  for (const auto& [id, bias] : proto.logit_bias()) params.logit_bias[id] = bias;
  if (proto.has_seed()) params.seed = proto.seed();
  if (proto.has_max_new_tokens()) params.max_new_tokens = proto.max_new_tokens();
  if (proto.has_min_new_tokens()) params.min_new_tokens = proto.min_new_tokens();
  params.stop_token_ids.assign(proto.stop_token_ids().begin(), proto.stop_token_ids().end());
  params.stop.assign(proto.stop().begin(), proto.stop().end());
  if (proto.has_logprobs()) params.logprobs = proto.logprobs();
  return params;
}

}  // namespace

absl::StatusOr<absl::Duration> ToDuration(const google::protobuf::Duration& proto,
                                          std::string_view field, absl::Duration low,
                                          absl::Duration high) {
  constexpr int64_t kMaxSeconds = 315'576'000'000;  // As duration.proto says.
  const int64_t seconds = proto.seconds();
  const int32_t nanos = proto.nanos();
  if (seconds < -kMaxSeconds || seconds > kMaxSeconds || nanos < -999'999'999 ||
      nanos > 999'999'999 || (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0)) {
    return InvalidField(field, "is not a valid google.protobuf.Duration");
  }
  const absl::Duration duration = absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  if (duration < low) {
    return InvalidField(field, "must be at least " + absl::FormatDuration(low));
  }
  if (duration > high) {
    return InvalidField(field, "must be at most " + absl::FormatDuration(high));
  }
  return duration;
}

absl::StatusOr<TurnRequest> ToTurnRequest(const v1::GenerateRequest& request,
                                          const TimeLimits& limits) {
  TurnRequest turn;
  FERMATA_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  FERMATA_RETURN_IF_ERROR(CheckOnDisconnect(request));
  turn.request_id = request.request_id();
  turn.claim = {.priority = request.priority(), .tenant = request.tenant()};
  turn.prompt.text = request.text();
  turn.prompt.token_ids.assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
  turn.prompt.parse_special = request.parse_special();
  if (request.has_session()) {
    FERMATA_ASSIGN_OR_RETURN(turn.session, ToBeginOptions(request.session()));
  }
  turn.sampling = ToSampling(request.sampling());
  turn.seed_given = request.sampling().has_seed();
  turn.ignore_eos = request.sampling().ignore_eos();
  turn.time_limit = limits.fallback;
  if (request.has_time_limit()) {
    FERMATA_ASSIGN_OR_RETURN(turn.time_limit,
                             ToDuration(request.time_limit(), "time_limit", absl::Nanoseconds(1),
                                        absl::InfiniteDuration()));
    turn.time_limit = std::min(turn.time_limit, limits.longest);
  }
  return turn;
}

absl::StatusOr<ScoreRequest> ToScoreRequest(const v1::ScoreRequest& request) {
  ScoreRequest score;
  FERMATA_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  score.request_id = request.request_id();
  score.claim = {.priority = request.priority(), .tenant = request.tenant()};
  score.context.text = request.context_text();
  const auto& context_ids = request.context_token_ids().ids();
  score.context.token_ids.assign(context_ids.begin(), context_ids.end());
  score.context.parse_special = request.parse_special();
  score.input.text = request.text();
  score.input.token_ids.assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
  score.input.parse_special = request.parse_special();
  score.top_logprobs = request.top_logprobs();
  return score;
}

absl::StatusOr<SessionStore::CreateOptions> ToCreateOptions(
    const v1::CreateSessionRequest& request) {
  SessionStore::CreateOptions options;
  options.id = request.id();
  if (!options.id.empty()) FERMATA_RETURN_IF_ERROR(ValidateSessionId(options.id, "id"));
  options.labels = ToMap(request.labels());
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  if (request.has_time_to_live()) {
    FERMATA_ASSIGN_OR_RETURN(options.ttl, ToTtl(request.time_to_live(), "time_to_live"));
  }
  FERMATA_ASSIGN_OR_RETURN(options.durability, ToDurability(request.durability(), "durability"));
  if (request.has_max_checkpoints()) {
    FERMATA_ASSIGN_OR_RETURN(options.max_checkpoints,
                             ToMaxCheckpoints(request.max_checkpoints(), "max_checkpoints"));
  }
  return options;
}

absl::StatusOr<SessionStore::ListOptions> ToListOptions(const v1::ListSessionsRequest& request) {
  SessionStore::ListOptions options;
  if (request.page_size() < 0 || request.page_size() > kMaxPageSize) {
    return InvalidField("page_size", "must be in [0, " + std::to_string(kMaxPageSize) + "]");
  }
  options.page_size = request.page_size() == 0 ? kDefaultPageSize : request.page_size();
  options.page_token = request.page_token();
  options.labels = ToMap(request.labels());
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  return options;
}

absl::StatusOr<SessionStore::UpdateOptions> ToUpdateOptions(
    const v1::UpdateSessionRequest& request) {
  SessionStore::UpdateOptions options;
  FERMATA_ASSIGN_OR_RETURN(options.expected, ExpectedOf(request));
  FERMATA_ASSIGN_OR_RETURN(options.durability, ToDurability(request.durability(), "durability"));
  if (request.has_max_checkpoints()) {
    FERMATA_ASSIGN_OR_RETURN(options.max_checkpoints,
                             ToMaxCheckpoints(request.max_checkpoints(), "max_checkpoints"));
  }
  if (request.has_pinned()) options.pinned = request.pinned();
  if (request.has_labels()) {
    options.labels = ToMap(request.labels().values());
    FERMATA_RETURN_IF_ERROR(ValidateLabels(*options.labels, "labels"));
  }
  if (request.has_time_to_live()) {
    const google::protobuf::Duration& proto = request.time_to_live();
    options.ttl.emplace();
    if (proto.seconds() != 0 || proto.nanos() != 0) {
      FERMATA_ASSIGN_OR_RETURN(*options.ttl, ToTtl(proto, "time_to_live"));
    }
  }
  return options;
}

absl::StatusOr<SessionStore::ForkOptions> ToForkOptions(const v1::ForkSessionRequest& request) {
  SessionStore::ForkOptions options;
  SessionStore::CreateOptions& target = options.target;
  target.id = request.new_id();
  if (!target.id.empty()) FERMATA_RETURN_IF_ERROR(ValidateSessionId(target.id, "new_id"));
  target.labels = ToMap(request.labels());
  FERMATA_RETURN_IF_ERROR(ValidateLabels(target.labels, "labels"));
  if (request.has_time_to_live()) {
    FERMATA_ASSIGN_OR_RETURN(target.ttl, ToTtl(request.time_to_live(), "time_to_live"));
  }
  FERMATA_ASSIGN_OR_RETURN(target.durability, ToDurability(request.durability(), "durability"));
  if (request.has_max_checkpoints()) {
    FERMATA_ASSIGN_OR_RETURN(target.max_checkpoints,
                             ToMaxCheckpoints(request.max_checkpoints(), "max_checkpoints"));
  }
  FERMATA_ASSIGN_OR_RETURN(options.place, ToPlace(request.from(), "from"));
  FERMATA_ASSIGN_OR_RETURN(options.expected, ExpectedOf(request));
  return options;
}

absl::StatusOr<SessionStore::Expected> ToExpected(const v1::DeleteSessionRequest& request) {
  return ExpectedOf(request);
}

absl::StatusOr<SessionStore::Expected> ToExpected(const v1::RewindSessionRequest& request) {
  return ExpectedOf(request);
}

absl::StatusOr<SessionStore::Place> ToPlace(const v1::Checkpoint& checkpoint,
                                            std::string_view field) {
  const std::string name(field);
  SessionStore::Place place;
  switch (checkpoint.place_case()) {
    case v1::Checkpoint::kTurns:
      if (checkpoint.turns() < 0) return InvalidField(name + ".turns", "must not be negative");
      place.turns = checkpoint.turns();
      break;
    case v1::Checkpoint::kPosition:
      if (checkpoint.position() < 0) {
        return InvalidField(name + ".position", "must not be negative");
      }
      place.position = checkpoint.position();
      break;
    case v1::Checkpoint::kBeforeLastTurn:
      if (!checkpoint.before_last_turn()) {
        return InvalidField(name + ".before_last_turn", "must be true where it is set");
      }
      place.before_last_turn = true;
      break;
    case v1::Checkpoint::PLACE_NOT_SET:
      break;
  }
  return place;
}

absl::StatusOr<SessionStore::ImportOptions> ToImportOptions(const v1::ImportOptions& options) {
  if (!options.id().empty()) FERMATA_RETURN_IF_ERROR(ValidateSessionId(options.id(), "options.id"));
  return SessionStore::ImportOptions{.id = options.id(), .replace = options.replace()};
}

absl::Status CheckAttach(const v1::AttachRequest& request) {
  if (request.request_id().empty()) return InvalidField("request_id", "must be given");
  FERMATA_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (request.from_index() < 0) return InvalidField("from_index", "must not be negative");
  return absl::OkStatus();
}

}  // namespace fermata
