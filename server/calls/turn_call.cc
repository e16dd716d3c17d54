#include "server/calls/turn_call.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "server/calls/convert.h"
#include "server/observe/finish_reason.h"
#include "server/observe/logging.h"
#include "server/observe/span.h"

namespace fermata {
namespace {

// The parts of a turn as spans under its call's.
void LogParts(const TraceContext& call, absl::Time start, const TurnTimings& timings) {
  if (!LogsSpans(call.sampled)) return;
  for (const auto& [name, duration] : {std::pair{"queue", timings.queue},
                                       {"prefill", timings.prefill},
                                       {"decode", timings.decode}}) {
    if (duration == absl::ZeroDuration()) continue;  // It did not come to that.
    const TraceContext part = call.Child();
    LogSpan({.name = name, .trace = &part, .start = start, .duration = duration});
    start += duration;
  }
}

void LogTurn(const std::string& request_id, const TraceContext& trace, const TurnResult& result) {
  const TurnTimings& timings = result.timings;
  const auto first_token = timings.time_to_first_token.value_or(absl::ZeroDuration());
  LogEvent(LogLevel::kInfo, "turn_completed",
           {{"request_id", request_id},
            {"trace_id", trace.trace_id},
            {"span_id", trace.span_id},
            {"parent_span_id", trace.parent_span_id},
            {"session_id", result.session.has_value() ? result.session->id : ""},
            {"finish_reason", FinishReasonName(result.reason)},
            {"prompt_tokens", result.prompt_tokens},
            {"generated_tokens", result.generated_tokens},
            {"position", result.session.has_value() ? result.session->position : 0},
            {"queue_seconds", absl::ToDoubleSeconds(timings.queue)},
            {"prefill_seconds", absl::ToDoubleSeconds(timings.prefill)},
            {"first_token_seconds", absl::ToDoubleSeconds(first_token)},
            {"decode_seconds", absl::ToDoubleSeconds(timings.decode)},
            {"total_seconds", absl::ToDoubleSeconds(timings.total)}});
  LogParts(trace, absl::Now() - timings.total, timings);
}

absl::StatusOr<KeptAnswers::Opened> Open(const Front& front, Runtime& runtime,
                                         const v1::GenerateRequest& request,
                                         const TraceContext& trace) {
  const auto make = [&](std::shared_ptr<TurnStream::Keeper> keeper) {
    return std::make_shared<TurnStream>(TurnStream::Options{
        .buffer_tokens = front.stream_buffer_tokens,
        .model = &runtime.model(),
        .request_id = request.request_id(),
        .with_logprobs = request.sampling().has_logprobs() && request.sampling().logprobs() >= 0,
        .runs_without_reader = request.on_disconnect() == v1::ON_DISCONNECT_FINISH,
        .keeper = std::move(keeper),
        .writer = front.writer,
        .wake = [engine = &runtime.engine()] { engine->Wake(); },
        .ended =
            [request_id = request.request_id(), trace](const absl::StatusOr<TurnResult>& result) {
              if (result.ok()) LogTurn(request_id, trace, *result);
            }});
  };
  if (request.request_id().empty()) return KeptAnswers::Opened{make(nullptr), true};
  return front.answers->Open(request, make);
}

}  // namespace

absl::StatusOr<std::shared_ptr<TurnStream>> StartTurn(const Front& front,
                                                      const v1::GenerateRequest& request,
                                                      const TraceContext& trace,
                                                      TurnStream::Output* output) {
  FERMATA_ASSIGN_OR_RETURN(Runtime * runtime, front.serving->runtime());
  FERMATA_ASSIGN_OR_RETURN(TurnRequest turn, ToTurnRequest(request, front.time_limits));
  FERMATA_ASSIGN_OR_RETURN(const KeptAnswers::Opened opened, Open(front, *runtime, request, trace));
  FERMATA_RETURN_IF_ERROR(opened.stream->Attach(output, 0));
  if (!opened.is_new) return opened.stream;
  const auto handle = runtime->engine().Submit(std::move(turn), opened.stream);
  if (handle.ok()) {
    opened.stream->SetHandle(*handle);
  } else {
    opened.stream->Failed(handle.status());  // Also to those that found the turn meanwhile.
  }
  return opened.stream;
}

absl::StatusOr<std::shared_ptr<TurnStream>> TakeUpTurn(const Front& front,
                                                       const v1::AttachRequest& request,
                                                       TurnStream::Output* output) {
  FERMATA_RETURN_IF_ERROR(front.serving->runtime().status());
  FERMATA_RETURN_IF_ERROR(CheckAttach(request));
  FERMATA_ASSIGN_OR_RETURN(std::shared_ptr<TurnStream> stream,
                           front.answers->Find(request.tenant(), request.request_id()));
  FERMATA_RETURN_IF_ERROR(stream->Attach(output, request.from_index()));
  return stream;
}

void CountTurn(const v1::Complete& complete, CallRecord& record) {
  record.Succeed(absl::AsciiStrToLower(v1::FinishReason_Name(complete.finish_reason())));
}

void CountTurn(const absl::Status& failure, CallRecord& record) {
  if (absl::IsCancelled(failure)) {
    record.Succeed(FinishReasonName(FinishReason::kCancelled));
  } else {
    record.Fail(failure);
  }
}

}  // namespace fermata
