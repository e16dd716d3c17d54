#include "server/grpc/sessions_service.h"

#include "server/calls/session_calls.h"
#include "server/grpc/export_reactor.h"
#include "server/grpc/import_reactor.h"
#include "server/grpc/unary_call.h"

namespace fermata {

grpc::ServerUnaryReactor* SessionsService::Create(grpc::CallbackServerContext* context,
                                                  const v1::CreateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerLater(front_, *front_.sessions, context, "CreateSession",
                     Bind(CreateSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::Get(grpc::CallbackServerContext* context,
                                               const v1::GetSessionRequest* request,
                                               v1::Session* response) {
  return AnswerLater(front_, *front_.sessions, context, "GetSession",
                     Bind(GetSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::List(grpc::CallbackServerContext* context,
                                                const v1::ListSessionsRequest* request,
                                                v1::ListSessionsResponse* response) {
  return AnswerLater(front_, *front_.sessions, context, "ListSessions",
                     Bind(ListSessions, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::Update(grpc::CallbackServerContext* context,
                                                  const v1::UpdateSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerLater(front_, *front_.sessions, context, "UpdateSession",
                     Bind(UpdateSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::Delete(grpc::CallbackServerContext* context,
                                                  const v1::DeleteSessionRequest* request,
                                                  v1::DeleteSessionResponse* response) {
  return AnswerLater(front_, *front_.sessions, context, "DeleteSession",
                     Bind(DeleteSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::Fork(grpc::CallbackServerContext* context,
                                                const v1::ForkSessionRequest* request,
                                                v1::Session* response) {
  return AnswerLater(front_, *front_.sessions, context, "ForkSession",
                     Bind(ForkSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::Rewind(grpc::CallbackServerContext* context,
                                                  const v1::RewindSessionRequest* request,
                                                  v1::Session* response) {
  return AnswerLater(front_, *front_.sessions, context, "RewindSession",
                     Bind(RewindSession, front_, request, response));
}

grpc::ServerUnaryReactor* SessionsService::ListCheckpoints(
    grpc::CallbackServerContext* context, const v1::ListCheckpointsRequest* request,
    v1::ListCheckpointsResponse* response) {
  return AnswerLater(front_, *front_.sessions, context, "ListCheckpoints",
                     Bind(fermata::ListCheckpoints, front_, request, response));
}

grpc::ServerWriteReactor<v1::SnapshotPart>* SessionsService::Export(
    grpc::CallbackServerContext* context, const v1::ExportSessionRequest* request) {
  return StartExport(front_, *context, *request);
}

grpc::ServerReadReactor<v1::ImportSessionRequest>* SessionsService::Import(
    grpc::CallbackServerContext* context, v1::Session* response) {
  return StartImport(front_, *context, response);
}

}  // namespace fermata
