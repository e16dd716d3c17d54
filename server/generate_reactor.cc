#include "server/generate_reactor.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
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

// One call that reads a turn.
class TurnReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                          public TurnStream::Output {
 public:
  TurnReactor(const Front& front, std::string_view method, const std::string& request_id)
      : front_(front), record_(front.metrics, method, request_id) {}

  // Reads the turn of `request`, which it begins where that does not run yet.
  absl::Status Generate(const v1::GenerateRequest& request);
  absl::Status Attach(const v1::AttachRequest& request);
  // The call ends before it reads anything.
  void Refuse(const absl::Status& status) { Fail(status); }

  void OnWriteDone(bool ok) override { stream_->WriteDone(this, ok); }
  void OnCancel() override {
    if (stream_ != nullptr) stream_->ReaderGone(this);
  }
  void OnDone() override { delete this; }

  void Write(v1::GenerateResponse message) override {
    message_ = std::move(message);
    StartWrite(&message_);
  }
  void WriteLast(v1::GenerateResponse message) override {
    message_ = std::move(message);
    record_.Succeed(
        absl::AsciiStrToLower(v1::FinishReason_Name(message_.complete().finish_reason())));
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Fail(const absl::Status& status) override {
    if (absl::IsCancelled(status)) {
      record_.Succeed(FinishReasonName(FinishReason::kCancelled));
    } else {
      record_.Fail(status);
    }
    Finish(ToGrpcStatus(status));
  }

 private:
  absl::StatusOr<KeptAnswers::Opened> Open(Runtime& runtime, const v1::GenerateRequest& request);

  const Front& front_;
  CallRecord record_;
  std::shared_ptr<TurnStream> stream_;  // Null when the request was refused before there was one.
  v1::GenerateResponse message_;        // Being written.
};

absl::Status TurnReactor::Generate(const v1::GenerateRequest& request) {
  FERMATA_ASSIGN_OR_RETURN(Runtime * runtime, front_.serving->runtime());
  FERMATA_ASSIGN_OR_RETURN(TurnRequest turn, ToTurnRequest(request, front_.time_limits));
  FERMATA_ASSIGN_OR_RETURN(const KeptAnswers::Opened opened, Open(*runtime, request));
  FERMATA_RETURN_IF_ERROR(opened.stream->Attach(this, 0));
  stream_ = opened.stream;
  if (!opened.is_new) return absl::OkStatus();
  const auto handle = runtime->engine().Submit(std::move(turn), stream_);
  if (handle.ok()) {
    stream_->SetHandle(*handle);
  } else {
    stream_->Failed(handle.status());  // Also to those that found the turn meanwhile.
  }
  return absl::OkStatus();
}

absl::StatusOr<KeptAnswers::Opened> TurnReactor::Open(Runtime& runtime,
                                                      const v1::GenerateRequest& request) {
  const auto make = [&](std::shared_ptr<TurnStream::Keeper> keeper) {
    return std::make_shared<TurnStream>(TurnStream::Options{
        .buffer_tokens = front_.stream_buffer_tokens,
        .model = &runtime.model(),
        .request_id = request.request_id(),
        .with_logprobs = request.sampling().has_logprobs() && request.sampling().logprobs() >= 0,
        .runs_without_reader = request.on_disconnect() == v1::ON_DISCONNECT_FINISH,
        .keeper = std::move(keeper),
        .writer = front_.writer,
        .wake = [engine = &runtime.engine()] { engine->Wake(); },
        .ended =
            [request_id = request.request_id()](const absl::StatusOr<TurnResult>& result) {
              if (result.ok()) LogTurn(request_id, *result);
            }});
  };
  if (request.request_id().empty()) return KeptAnswers::Opened{make(nullptr), true};
  return front_.answers->Open(request, make);
}

absl::Status TurnReactor::Attach(const v1::AttachRequest& request) {
  FERMATA_RETURN_IF_ERROR(front_.serving->runtime().status());
  FERMATA_RETURN_IF_ERROR(CheckAttach(request));
  FERMATA_ASSIGN_OR_RETURN(const std::shared_ptr<TurnStream> stream,
                           front_.answers->Find(request.tenant(), request.request_id()));
  FERMATA_RETURN_IF_ERROR(stream->Attach(this, request.from_index()));
  stream_ = stream;
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(const Front& front,
                                                              const v1::GenerateRequest& request) {
  auto* reactor = new TurnReactor(front, "Generate", request.request_id());
  if (const absl::Status status = reactor->Generate(request); !status.ok()) reactor->Refuse(status);
  return reactor;
}

grpc::ServerWriteReactor<v1::GenerateResponse>* StartAttach(const Front& front,
                                                            const v1::AttachRequest& request) {
  auto* reactor = new TurnReactor(front, "Attach", request.request_id());
  if (const absl::Status status = reactor->Attach(request); !status.ok()) reactor->Refuse(status);
  return reactor;
}

}  // namespace fermata
