#include "server/calls/session_calls.h"

#include <string>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

absl::Status Fill(const Front& front, Runtime& runtime, const absl::StatusOr<SessionRecord>& record,
                  v1::Session* reply) {
  FERMATA_RETURN_IF_ERROR(record.status());
  FillSession(*record, runtime.model(), front.session_defaults, reply);
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> Find(Runtime& runtime, const std::string& id) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  return runtime.sessions().Get(id);
}

}  // namespace

absl::Status CreateSession(const Front& front, Runtime& runtime,
                           const v1::CreateSessionRequest& request, v1::Session* reply) {
  FERMATA_RETURN_IF_ERROR(CheckKeepsSessions(runtime.model()));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToCreateOptions(request));
  return Fill(front, runtime, runtime.sessions().Create(options), reply);
}

absl::Status GetSession(const Front& front, Runtime& runtime, const v1::GetSessionRequest& request,
                        v1::Session* reply) {
  return Fill(front, runtime, Find(runtime, request.id()), reply);
}

absl::Status ListSessions(const Front& front, Runtime& runtime,
                          const v1::ListSessionsRequest& request, v1::ListSessionsResponse* reply) {
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToListOptions(request));
  FERMATA_ASSIGN_OR_RETURN(const SessionStore::Page page, runtime.sessions().List(options));
  for (const SessionRecord& record : page.sessions) {
    FillSession(record, runtime.model(), front.session_defaults, reply->add_sessions());
  }
  reply->set_next_page_token(page.next_page_token);
  return CheckReplySize(front, reply->ByteSizeLong());
}

absl::Status UpdateSession(const Front& front, Runtime& runtime,
                           const v1::UpdateSessionRequest& request, v1::Session* reply) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToUpdateOptions(request));
  return Fill(front, runtime, runtime.sessions().Update(request.id(), options), reply);
}

absl::Status DeleteSession(const Front&, Runtime& runtime, const v1::DeleteSessionRequest& request,
                           v1::DeleteSessionResponse*) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto expected, ToExpected(request));
  return runtime.sessions().Delete(request.id(), expected);
}

absl::Status ForkSession(const Front& front, Runtime& runtime,
                         const v1::ForkSessionRequest& request, v1::Session* reply) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToForkOptions(request));
  return Fill(front, runtime, runtime.sessions().Fork(request.id(), options), reply);
}

absl::Status RewindSession(const Front& front, Runtime& runtime,
                           const v1::RewindSessionRequest& request, v1::Session* reply) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  if (request.to().place_case() == v1::Checkpoint::PLACE_NOT_SET) {
    return InvalidField("to", "must name a checkpoint");
  }
  FERMATA_ASSIGN_OR_RETURN(const auto place, ToPlace(request.to(), "to"));
  FERMATA_ASSIGN_OR_RETURN(const auto expected, ToExpected(request));
  return Fill(front, runtime, runtime.sessions().Rewind(request.id(), place, expected), reply);
}

absl::Status ListCheckpoints(const Front&, Runtime& runtime,
                             const v1::ListCheckpointsRequest& request,
                             v1::ListCheckpointsResponse* reply) {
  FERMATA_ASSIGN_OR_RETURN(const SessionRecord record, Find(runtime, request.id()));
  FillCheckpoints(record, reply);
  return absl::OkStatus();
}

}  // namespace fermata
