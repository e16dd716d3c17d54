#ifndef FERMATA_SERVER_CALLS_SESSION_CALLS_H_
#define FERMATA_SERVER_CALLS_SESSION_CALLS_H_

#include "absl/status/status.h"
#include "fermata/v1/session.pb.h"
#include "server/calls/front.h"
#include "server/calls/runtime.h"

namespace fermata {

// The unary calls of fermata.v1.Sessions. They check the request, do what it asks for and fill the
// reply, which is empty before. They may wait for a disk: for threads of front.sessions. Thread-safe.

absl::Status CreateSession(const Front& front, Runtime& runtime,
                           const v1::CreateSessionRequest& request, v1::Session* reply);
absl::Status GetSession(const Front& front, Runtime& runtime, const v1::GetSessionRequest& request,
                        v1::Session* reply);
absl::Status ListSessions(const Front& front, Runtime& runtime,
                          const v1::ListSessionsRequest& request, v1::ListSessionsResponse* reply);
absl::Status UpdateSession(const Front& front, Runtime& runtime,
                           const v1::UpdateSessionRequest& request, v1::Session* reply);
absl::Status DeleteSession(const Front& front, Runtime& runtime,
                           const v1::DeleteSessionRequest& request,
                           v1::DeleteSessionResponse* reply);
absl::Status ForkSession(const Front& front, Runtime& runtime,
                         const v1::ForkSessionRequest& request, v1::Session* reply);
absl::Status RewindSession(const Front& front, Runtime& runtime,
                           const v1::RewindSessionRequest& request, v1::Session* reply);
absl::Status ListCheckpoints(const Front& front, Runtime& runtime,
                             const v1::ListCheckpointsRequest& request,
                             v1::ListCheckpointsResponse* reply);

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_SESSION_CALLS_H_
