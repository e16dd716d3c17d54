#include "server/generate_reactor.h"

#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "server/convert.h"
#include "server/grpc_status.h"
#include "server/logging.h"
#include "server/turn_stream.h"

namespace fermata {
namespace {

void LogTurn(const std::string& request_id, const TurnResult& result) {
  const TurnTimings& timings = result.timings;
  const auto first_token = timings.time_to_first_token.value_or(absl::ZeroDuration());
  LogEvent(LogLevel::kInfo, "turn_completed",
           {{"request_id", request_id},
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
}

class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                              public TurnStream::Output {
 public:
  GenerateReactor(const Front& front, const v1::GenerateRequest& request)
      : record_(front.metrics, "Generate", request.request_id()) {
    const absl::Status status = Submit(front, request);
    if (status.ok()) return;
    record_.Fail(status);
    Finish(ToGrpcStatus(status));
  }

  void OnWriteDone(bool ok) override { stream_->WriteDone(ok); }
  void OnCancel() override {
    if (stream_ != nullptr) stream_->ReaderGone();
  }
  void OnDone() override { delete this; }

  void Write(const v1::GenerateResponse& message) override { StartWrite(&message); }
  void WriteLast(const v1::GenerateResponse& message) override {
    StartWriteAndFinish(&message, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Fail(const absl::Status& status) override { Finish(ToGrpcStatus(status)); }

 private:
  absl::Status Submit(const Front& front, const v1::GenerateRequest& request) {
    FERMATA_ASSIGN_OR_RETURN(Runtime * runtime, front.serving->runtime());
    FERMATA_ASSIGN_OR_RETURN(TurnRequest turn, ToTurnRequest(request, front.time_limits));
    Engine* engine = &runtime->engine();
    stream_ = std::make_shared<TurnStream>(
        TurnStream::Options{.buffer_tokens = front.stream_buffer_tokens,
                            .model = &runtime->model(),
                            .request_id = turn.request_id,
                            .with_logprobs = turn.sampling.logprobs >= 0,
                            .writer = front.writer,
                            .wake = [engine] { engine->Wake(); },
                            .ended = [this](const auto& result) { Ended(result); }},
        this);
    FERMATA_ASSIGN_OR_RETURN(std::shared_ptr<RequestHandle> handle,
                             engine->Submit(std::move(turn), stream_));
    stream_->SetHandle(handle);
    return absl::OkStatus();
  }

  void Ended(const absl::StatusOr<TurnResult>& result) {
    if (!result.ok()) {
      record_.Fail(result.status());
      return;
    }
    record_.Succeed(FinishReasonName(result->reason));
    LogTurn(record_.request_id(), *result);
  }

  CallRecord record_;
  std::shared_ptr<TurnStream> stream_;  // Null when the request was refused before the engine.
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(const Front& front,
                                                              const v1::GenerateRequest& request) {
  return new GenerateReactor(front, request);
}

}  // namespace fermata
