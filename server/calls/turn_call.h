#ifndef FERMATA_SERVER_CALLS_TURN_CALL_H_
#define FERMATA_SERVER_CALLS_TURN_CALL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fermata/v1/generation.pb.h"
#include "server/calls/front.h"
#include "server/calls/turn_stream.h"

namespace fermata {

// The turn that `request` asks for, with `output` as its reader: a new one, or the one that runs, or is
// kept, under its request_id. When there is an error, the output is not called; a turn that the engine
// refuses tells the output so. What is logged of a new turn is told under `trace`, that of the call.
absl::StatusOr<std::shared_ptr<TurnStream>> StartTurn(const Front& front,
                                                      const v1::GenerateRequest& request,
                                                      const TraceContext& trace,
                                                      TurnStream::Output* output);

// The turn whose stream was lost, with `output` as its reader from a token on.
absl::StatusOr<std::shared_ptr<TurnStream>> TakeUpTurn(const Front& front,
                                                       const v1::AttachRequest& request,
                                                       TurnStream::Output* output);

// Counts how a call that read a turn ended: by its finish reason, or by why it failed.
void CountTurn(const v1::Complete& complete, CallRecord& record);
void CountTurn(const absl::Status& failure, CallRecord& record);

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_TURN_CALL_H_
