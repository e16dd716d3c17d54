#include "server/sessions_service.h"

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/convert.h"
#include "server/unary_call.h"

namespace fermata {
namespace {

absl::Status CreateSession(Runtime& runtime, const v1::CreateSessionRequest& request,
                           v1::Session* response) {
  if (!runtime.model().fixed_size_state) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "the state of this model grows with the position: it can not be kept",
                     {.reason = "UNBOUNDED_STATE", .metadata = {}, .retry_after = {}});
  }
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToCreateOptions(request));
  FERMATA_ASSIGN_OR_RETURN(const SessionRecord record, runtime.sessions().Create(options));
  FillSession(record, runtime.model(), response);
  return absl::OkStatus();
}

absl::Status GetSession(Runtime& runtime, const v1::GetSessionRequest& request,
                        v1::Session* response) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const SessionRecord record, runtime.sessions().Get(request.id()));
  FillSession(record, runtime.model(), response);
  return absl::OkStatus();
}

absl::Status ListSessions(Runtime& runtime, const Front& front,
                          const v1::ListSessionsRequest& request,
                          v1::ListSessionsResponse* response) {
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToListOptions(request));
  FERMATA_ASSIGN_OR_RETURN(const SessionStore::Page page, runtime.sessions().List(options));
  for (const SessionRecord& record : page.sessions) {
    FillSession(record, runtime.model(), response->add_sessions());
  }
  response->set_next_page_token(page.next_page_token);
  return CheckReplySize(front, response->ByteSizeLong());
}

absl::Status UpdateSession(Runtime& runtime, const v1::UpdateSessionRequest& request,
                           v1::Session* response) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToUpdateOptions(request));
  FERMATA_ASSIGN_OR_RETURN(const SessionRecord record,
                           runtime.sessions().Update(request.id(), options));
  FillSession(record, runtime.model(), response);
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* SessionsService::Create(grpc::CallbackServerContext* context,
                                                  const v1::CreateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerNow(front_, context, "CreateSession",
                   [&](Runtime& runtime) { return CreateSession(runtime, *request, response); });
}

grpc::ServerUnaryReactor* SessionsService::Get(grpc::CallbackServerContext* context,
                                               const v1::GetSessionRequest* request,
                                               v1::Session* response) {
  return AnswerNow(front_, context, "GetSession",
                   [&](Runtime& runtime) { return GetSession(runtime, *request, response); });
}

grpc::ServerUnaryReactor* SessionsService::List(grpc::CallbackServerContext* context,
                                                const v1::ListSessionsRequest* request,
                                                v1::ListSessionsResponse* response) {
  return AnswerNow(front_, context, "ListSessions", [&](Runtime& runtime) {
    return ListSessions(runtime, front_, *request, response);
  });
}

grpc::ServerUnaryReactor* SessionsService::Update(grpc::CallbackServerContext* context,
                                                  const v1::UpdateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerNow(front_, context, "UpdateSession",
                   [&](Runtime& runtime) { return UpdateSession(runtime, *request, response); });
}

grpc::ServerUnaryReactor* SessionsService::Delete(grpc::CallbackServerContext* context,
                                                  const v1::DeleteSessionRequest* request,
                                                  v1::DeleteSessionResponse*) {
  return AnswerNow(front_, context, "DeleteSession", [&](Runtime& runtime) -> absl::Status {
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(request->id(), "id"));
    return runtime.sessions().Delete(request->id());
  });
}

}  // namespace fermata
