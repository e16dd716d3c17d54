#include "server/grpc/unary_call.h"

#include <memory>
#include <utility>

#include "server/grpc/call_origin.h"

namespace fermata {

grpc::ServerUnaryReactor* AnswerNow(const Front& front, grpc::CallbackServerContext* context,
                                    std::string_view method,
                                    absl::FunctionRef<absl::Status(Runtime&)> work) {
  CallRecord record(front.metrics, method, "", OriginOf(*context));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Runtime*> runtime = front.serving->runtime();
  FinishCall(record, runtime.ok() ? work(**runtime) : runtime.status(), reactor);
  return reactor;
}

grpc::ServerUnaryReactor* AnswerLater(const Front& front, Worker& worker,
                                      grpc::CallbackServerContext* context, std::string_view method,
                                      std::function<absl::Status(Runtime&)> work) {
  auto record = std::make_shared<CallRecord>(front.metrics, method, "", OriginOf(*context));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Runtime*> runtime = front.serving->runtime();
  if (!runtime.ok()) {
    FinishCall(*record, runtime.status(), reactor);
    return reactor;
  }
  const bool posted = worker.TryPost([record, reactor, runtime = *runtime, work = std::move(work)] {
    FinishCall(*record, work(*runtime), reactor);
  });
  if (!posted) FinishCall(*record, TooManyWait(), reactor);
  return reactor;
}

}  // namespace fermata
