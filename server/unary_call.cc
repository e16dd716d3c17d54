#include "server/unary_call.h"

#include "server/grpc_status.h"

namespace fermata {

void FinishCall(CallRecord& record, const absl::Status& status, grpc::ServerUnaryReactor* reactor) {
  if (status.ok()) {
    record.Succeed();
  } else {
    record.Fail(status);
  }
  reactor->Finish(ToGrpcStatus(status));
}

grpc::ServerUnaryReactor* AnswerNow(const Front& front, grpc::CallbackServerContext* context,
                                    std::string_view method,
                                    absl::FunctionRef<absl::Status(Runtime&)> work) {
  CallRecord record(front.metrics, method);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Runtime*> runtime = front.serving->runtime();
  FinishCall(record, runtime.ok() ? work(**runtime) : runtime.status(), reactor);
  return reactor;
}

}  // namespace fermata
