#ifndef FERMATA_SERVER_REST_REQUESTS_H_
#define FERMATA_SERVER_REST_REQUESTS_H_

#include "absl/status/statusor.h"
#include "fermata/v1/models.pb.h"
#include "fermata/v1/session.pb.h"
#include "server/http/message.h"

namespace fermata {

// What path, query, headers and body of an HTTP request say, as the request of fermata/v1 that it is.
// Every error is INVALID_ARGUMENT and names the field, the parameter of the query or the header.
//
// The path says the session's id: a body may repeat it. If-Match says the expected revision, as ETag
// told it; `*` expects nothing.

absl::StatusOr<v1::GetModelRequest> ToGetModel(const HttpRequest& http);
absl::StatusOr<v1::CreateSessionRequest> ToCreateSession(const HttpRequest& http);
absl::StatusOr<v1::GetSessionRequest> ToGetSession(const HttpRequest& http);
absl::StatusOr<v1::ListSessionsRequest> ToListSessions(const HttpRequest& http);
absl::StatusOr<v1::UpdateSessionRequest> ToUpdateSession(const HttpRequest& http);
absl::StatusOr<v1::DeleteSessionRequest> ToDeleteSession(const HttpRequest& http);
absl::StatusOr<v1::ForkSessionRequest> ToForkSession(const HttpRequest& http);
absl::StatusOr<v1::RewindSessionRequest> ToRewindSession(const HttpRequest& http);
absl::StatusOr<v1::ListCheckpointsRequest> ToListCheckpoints(const HttpRequest& http);
absl::StatusOr<v1::ExportSessionRequest> ToExportSession(const HttpRequest& http);
absl::StatusOr<v1::ImportOptions> ToImportOptions(const HttpRequest& http);

}  // namespace fermata

#endif  // FERMATA_SERVER_REST_REQUESTS_H_
