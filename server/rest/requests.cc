#include "server/rest/requests.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_store.h"
#include "server/rest/proto_json.h"

namespace fermata {
namespace {

constexpr std::string_view kLabelPrefix = "labels.";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// A name that is misspelled would otherwise pass for one that was left out.
absl::Status CheckQuery(const HttpRequest& http, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : http.query) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (std::ranges::find(known, kLabelPrefix) != known.end() && name.starts_with(kLabelPrefix)) {
      continue;
    }
    return UnknownName(name, "is no parameter of this call");
  }
  return absl::OkStatus();
}

const std::string* Find(const HttpRequest& http, const std::string& name) {
  const auto found = http.query.find(name);
  return found == http.query.end() ? nullptr : &found->second;
}

template <typename Number>
absl::StatusOr<std::optional<Number>> NumberOf(const HttpRequest& http, const std::string& name) {
  const std::string* text = Find(http, name);
  if (text == nullptr) return std::nullopt;
  Number number;
  if (!absl::SimpleAtoi(*text, &number)) return InvalidField(name, "must be an integer");
  if (number < 0) return InvalidField(name, "must not be negative");
  return number;
}

absl::StatusOr<bool> BoolOf(const HttpRequest& http, const std::string& name) {
  const std::string* text = Find(http, name);
  if (text == nullptr || *text == "false") return false;
  if (*text == "true") return true;
  return InvalidField(name, "must be true or false");
}

// The body, with the id that the path names.
template <typename Request>
absl::StatusOr<Request> WithPathId(const HttpRequest& http) {
  Request request;
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {}));
  FERMATA_RETURN_IF_ERROR(FromJson(http.body, &request));
  const std::string& id = http.parameters.at("id");
  if (!request.id().empty() && request.id() != id) {
    return InvalidField("id", "is not the session that the path names");
  }
  request.set_id(id);
  return request;
}

template <typename Request>
absl::Status TakeIfMatch(const HttpRequest& http, Request& request) {
  const std::optional<std::string_view> header = http.Header("If-Match");
  if (!header.has_value() || *header == "*") return absl::OkStatus();
  absl::string_view tag = View(*header);
  uint64_t revision = 0;
  if (!absl::ConsumePrefix(&tag, "\"") || !absl::ConsumeSuffix(&tag, "\"") ||
      !absl::SimpleAtoi(tag, &revision)) {
    return InvalidField("If-Match", "must be one ETag of the session, or *");
  }
  if (request.has_expected_revision() && request.expected_revision() != revision) {
    return InvalidField("expected_revision", "is not that of If-Match");
  }
  request.set_expected_revision(revision);
  return absl::OkStatus();
}

// The same with the revision that If-Match expects.
template <typename Request>
absl::StatusOr<Request> Guarded(const HttpRequest& http) {
  FERMATA_ASSIGN_OR_RETURN(Request request, WithPathId<Request>(http));
  FERMATA_RETURN_IF_ERROR(TakeIfMatch(http, request));
  return request;
}

absl::StatusOr<v1::Checkpoint> PlaceOf(const HttpRequest& http) {
  v1::Checkpoint place;
  FERMATA_ASSIGN_OR_RETURN(const auto turns, NumberOf<int64_t>(http, "turns"));
  FERMATA_ASSIGN_OR_RETURN(const auto position, NumberOf<int64_t>(http, "position"));
  FERMATA_ASSIGN_OR_RETURN(const bool before, BoolOf(http, "before_last_turn"));
  if (int{turns.has_value()} + int{position.has_value()} + int{before} > 1) {
    return InvalidField(
        before ? "before_last_turn" : "position",
        "is a second place: turns, position and before_last_turn exclude one another");
  }
  if (turns.has_value()) place.set_turns(*turns);
  if (position.has_value()) place.set_position(*position);
  if (before) place.set_before_last_turn(true);
  return place;
}

}  // namespace

absl::StatusOr<v1::GetModelRequest> ToGetModel(const HttpRequest& http) {
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {}));
  return v1::GetModelRequest();
}

absl::StatusOr<v1::CreateSessionRequest> ToCreateSession(const HttpRequest& http) {
  v1::CreateSessionRequest request;
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {}));
  FERMATA_RETURN_IF_ERROR(FromJson(http.body, &request));
  return request;
}

absl::StatusOr<v1::GetSessionRequest> ToGetSession(const HttpRequest& http) {
  return WithPathId<v1::GetSessionRequest>(http);
}

absl::StatusOr<v1::ListSessionsRequest> ToListSessions(const HttpRequest& http) {
  v1::ListSessionsRequest request;
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {"page_size", "page_token", kLabelPrefix}));
  FERMATA_ASSIGN_OR_RETURN(const auto page_size, NumberOf<int32_t>(http, "page_size"));
  request.set_page_size(page_size.value_or(0));
  if (const std::string* token = Find(http, "page_token")) request.set_page_token(*token);
  for (const auto& [name, value] : http.query) {
    if (!name.starts_with(kLabelPrefix)) continue;
    (*request.mutable_labels())[name.substr(kLabelPrefix.size())] = value;
  }
  return request;
}

absl::StatusOr<v1::UpdateSessionRequest> ToUpdateSession(const HttpRequest& http) {
  return Guarded<v1::UpdateSessionRequest>(http);
}

absl::StatusOr<v1::DeleteSessionRequest> ToDeleteSession(const HttpRequest& http) {
  return Guarded<v1::DeleteSessionRequest>(http);
}

absl::StatusOr<v1::ForkSessionRequest> ToForkSession(const HttpRequest& http) {
  return Guarded<v1::ForkSessionRequest>(http);
}

absl::StatusOr<v1::RewindSessionRequest> ToRewindSession(const HttpRequest& http) {
  return Guarded<v1::RewindSessionRequest>(http);
}

absl::StatusOr<v1::ListCheckpointsRequest> ToListCheckpoints(const HttpRequest& http) {
  return WithPathId<v1::ListCheckpointsRequest>(http);
}

absl::StatusOr<v1::ExportSessionRequest> ToExportSession(const HttpRequest& http) {
  v1::ExportSessionRequest request;
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {"turns", "position", "before_last_turn"}));
  FERMATA_ASSIGN_OR_RETURN(*request.mutable_from(), PlaceOf(http));
  request.set_id(http.parameters.at("id"));
  return request;
}

absl::StatusOr<v1::ImportOptions> ToImportOptions(const HttpRequest& http) {
  v1::ImportOptions options;
  FERMATA_RETURN_IF_ERROR(CheckQuery(http, {"id", "replace"}));
  if (const std::string* id = Find(http, "id")) {
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(*id, "id"));
    options.set_id(*id);
  }
  FERMATA_ASSIGN_OR_RETURN(const bool replace, BoolOf(http, "replace"));
  options.set_replace(replace);
  return options;
}

}  // namespace fermata
