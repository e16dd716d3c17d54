#ifndef FERMATA_SERVER_GRPC_UNARY_CALL_H_
#define FERMATA_SERVER_GRPC_UNARY_CALL_H_

#include <functional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/front.h"
#include "server/grpc/grpc_status.h"

namespace fermata {

// Counts the call and sends its end. The last use of the reactor, whatever its kind, which may be gone
// afterwards.
template <typename Reactor>
void FinishCall(CallRecord& record, const absl::Status& status, Reactor* reactor) {
  if (status.ok()) {
    record.Succeed();
  } else {
    record.Fail(status);
  }
  reactor->Finish(ToGrpcStatus(status));
}

// A unary call that is answered at once: `work` fills the reply, and must be short. `method` must
// be a literal.
grpc::ServerUnaryReactor* AnswerNow(const Front& front, grpc::CallbackServerContext* context,
                                    std::string_view method,
                                    absl::FunctionRef<absl::Status(Runtime&)> work);

// A unary call that `worker` answers, because `work` waits or takes long; it fills the reply, which
// lives until then. RESOURCE_EXHAUSTED with reason QUEUE_FULL when too many wait for the worker.
grpc::ServerUnaryReactor* AnswerLater(const Front& front, Worker& worker,
                                      grpc::CallbackServerContext* context, std::string_view method,
                                      std::function<absl::Status(Runtime&)> work);

// The work that is to do one of server/calls for `request`, which lives until the reactor's end.
template <typename Request, typename Reply>
std::function<absl::Status(Runtime&)> Bind(absl::Status (*call)(const Front&, Runtime&,
                                                                const Request&, Reply*),
                                           const Front& front, const Request* request,
                                           Reply* reply) {
  return [call, &front, request, reply](Runtime& runtime) {
    return call(front, runtime, *request, reply);
  };
}

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_UNARY_CALL_H_
