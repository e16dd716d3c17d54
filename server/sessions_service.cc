#include "server/sessions_service.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/convert.h"
#include "server/export_reactor.h"
#include "server/import_reactor.h"
#include "server/unary_call.h"

namespace fermata {
namespace {

using Record = absl::StatusOr<SessionRecord>;

Record CreateSession(Runtime& runtime, const v1::CreateSessionRequest& request) {
  FERMATA_RETURN_IF_ERROR(CheckKeepsSessions(runtime.model()));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToCreateOptions(request));
  return runtime.sessions().Create(options);
}

Record GetSession(Runtime& runtime, const std::string& id) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  return runtime.sessions().Get(id);
}

Record UpdateSession(Runtime& runtime, const v1::UpdateSessionRequest& request) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToUpdateOptions(request));
  return runtime.sessions().Update(request.id(), options);
}

Record ForkSession(Runtime& runtime, const v1::ForkSessionRequest& request) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToForkOptions(request));
  return runtime.sessions().Fork(request.id(), options);
}

Record RewindSession(Runtime& runtime, const v1::RewindSessionRequest& request) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  if (request.to().place_case() == v1::Checkpoint::PLACE_NOT_SET) {
    return InvalidField("to", "must name a checkpoint");
  }
  FERMATA_ASSIGN_OR_RETURN(const auto place, ToPlace(request.to(), "to"));
  FERMATA_ASSIGN_OR_RETURN(const auto expected, ToExpected(request));
  return runtime.sessions().Rewind(request.id(), place, expected);
}

absl::Status DeleteSession(Runtime& runtime, const v1::DeleteSessionRequest& request) {
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(const auto expected, ToExpected(request));
  return runtime.sessions().Delete(request.id(), expected);
}

absl::Status ListSessions(Runtime& runtime, const Front& front,
                          const v1::ListSessionsRequest& request,
                          v1::ListSessionsResponse* response) {
  FERMATA_ASSIGN_OR_RETURN(const auto options, ToListOptions(request));
  FERMATA_ASSIGN_OR_RETURN(const SessionStore::Page page, runtime.sessions().List(options));
  for (const SessionRecord& record : page.sessions) {
    FillSession(record, runtime.model(), front.session_defaults, response->add_sessions());
  }
  response->set_next_page_token(page.next_page_token);
  return CheckReplySize(front, response->ByteSizeLong());
}

}  // namespace

grpc::ServerUnaryReactor* SessionsService::AnswerSession(
    grpc::CallbackServerContext* context, std::string_view method, v1::Session* response,
    std::function<absl::StatusOr<SessionRecord>(Runtime&)> work) {
  return AnswerLater(front_, *front_.sessions, context, method,
                     [this, response, work = std::move(work)](Runtime& runtime) -> absl::Status {
                       FERMATA_ASSIGN_OR_RETURN(const SessionRecord record, work(runtime));
                       FillSession(record, runtime.model(), front_.session_defaults, response);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* SessionsService::Create(grpc::CallbackServerContext* context,
                                                  const v1::CreateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerSession(context, "CreateSession", response,
                       [request](Runtime& runtime) { return CreateSession(runtime, *request); });
}

grpc::ServerUnaryReactor* SessionsService::Get(grpc::CallbackServerContext* context,
                                               const v1::GetSessionRequest* request,
                                               v1::Session* response) {
  return AnswerSession(context, "GetSession", response,
                       [request](Runtime& runtime) { return GetSession(runtime, request->id()); });
}

grpc::ServerUnaryReactor* SessionsService::List(grpc::CallbackServerContext* context,
                                                const v1::ListSessionsRequest* request,
                                                v1::ListSessionsResponse* response) {
  return AnswerLater(front_, *front_.sessions, context, "ListSessions",
                     [this, request, response](Runtime& runtime) {
                       return ListSessions(runtime, front_, *request, response);
                     });
}

grpc::ServerUnaryReactor* SessionsService::Update(grpc::CallbackServerContext* context,
                                                  const v1::UpdateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerSession(context, "UpdateSession", response,
                       [request](Runtime& runtime) { return UpdateSession(runtime, *request); });
}

grpc::ServerUnaryReactor* SessionsService::Delete(grpc::CallbackServerContext* context,
                                                  const v1::DeleteSessionRequest* request,
                                                  v1::DeleteSessionResponse*) {
  return AnswerLater(front_, *front_.sessions, context, "DeleteSession",
                     [request](Runtime& runtime) { return DeleteSession(runtime, *request); });
}

grpc::ServerUnaryReactor* SessionsService::Fork(grpc::CallbackServerContext* context,
                                                const v1::ForkSessionRequest* request,
                                                v1::Session* response) {
  return AnswerSession(context, "ForkSession", response,
                       [request](Runtime& runtime) { return ForkSession(runtime, *request); });
}

grpc::ServerUnaryReactor* SessionsService::Rewind(grpc::CallbackServerContext* context,
                                                  const v1::RewindSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerSession(context, "RewindSession", response,
                       [request](Runtime& runtime) { return RewindSession(runtime, *request); });
}

grpc::ServerUnaryReactor* SessionsService::ListCheckpoints(
    grpc::CallbackServerContext* context, const v1::ListCheckpointsRequest* request,
    v1::ListCheckpointsResponse* response) {
  return AnswerLater(front_, *front_.sessions, context, "ListCheckpoints",
                     [request, response](Runtime& runtime) -> absl::Status {
                       FERMATA_ASSIGN_OR_RETURN(const SessionRecord record,
                                                GetSession(runtime, request->id()));
                       FillCheckpoints(record, response);
                       return absl::OkStatus();
                     });
}

grpc::ServerWriteReactor<v1::SnapshotPart>* SessionsService::Export(
    grpc::CallbackServerContext*, const v1::ExportSessionRequest* request) {
  return StartExport(front_, *request);
}

grpc::ServerReadReactor<v1::ImportSessionRequest>* SessionsService::Import(
    grpc::CallbackServerContext*, v1::Session* response) {
  return StartImport(front_, response);
}

}  // namespace fermata
