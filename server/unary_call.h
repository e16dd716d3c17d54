#ifndef FERMATA_SERVER_UNARY_CALL_H_
#define FERMATA_SERVER_UNARY_CALL_H_

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/front.h"

namespace fermata {

// Counts the call and sends its end. The last use of the reactor, which may be gone afterwards.
void FinishCall(CallRecord& record, const absl::Status& status, grpc::ServerUnaryReactor* reactor);

// A unary call that is answered at once: `work` fills the reply, and must be short. `method` must
// be a literal.
grpc::ServerUnaryReactor* AnswerNow(const Front& front, grpc::CallbackServerContext* context,
                                    std::string_view method,
                                    absl::FunctionRef<absl::Status(Runtime&)> work);

}  // namespace fermata

#endif  // FERMATA_SERVER_UNARY_CALL_H_
