#include "server/grpc/generate_reactor.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/calls/turn_call.h"
#include "server/calls/turn_stream.h"
#include "server/grpc/call_origin.h"
#include "server/grpc/grpc_status.h"

namespace fermata {
namespace {

// One call that reads a turn.
class TurnReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                          public TurnStream::Output {
 public:
  TurnReactor(const Front& front, const grpc::CallbackServerContext& context,
              std::string_view method, const std::string& request_id)
      : record_(front.metrics, method, request_id, OriginOf(context)) {}

  const TraceContext& trace() const { return record_.trace(); }

  // Reads `stream`, or ends before it reads anything.
  void Read(absl::StatusOr<std::shared_ptr<TurnStream>> stream) {
    if (stream.ok()) {
      stream_ = *std::move(stream);
    } else {
      Fail(stream.status());
    }
  }

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
    CountTurn(message_.complete(), record_);
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Fail(const absl::Status& status) override {
    CountTurn(status, record_);
    Finish(ToGrpcStatus(status));
  }

 private:
  CallRecord record_;
  std::shared_ptr<TurnStream> stream_;  // Null when the request was refused before there was one.
  v1::GenerateResponse message_;        // Being written.
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    const Front& front, const grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request) {
  auto* reactor = new TurnReactor(front, context, "Generate", request.request_id());
  reactor->Read(StartTurn(front, request, reactor->trace(), reactor));
  return reactor;
}

grpc::ServerWriteReactor<v1::GenerateResponse>* StartAttach(
    const Front& front, const grpc::CallbackServerContext& context,
    const v1::AttachRequest& request) {
  auto* reactor = new TurnReactor(front, context, "Attach", request.request_id());
  reactor->Read(TakeUpTurn(front, request, reactor));
  return reactor;
}

}  // namespace fermata
