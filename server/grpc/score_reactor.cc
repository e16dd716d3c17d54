#include "server/grpc/score_reactor.h"

#include <memory>
#include <mutex>
#include <utility>

#include "engine/base/status.h"
#include "server/calls/convert.h"
#include "server/grpc/call_origin.h"
#include "server/grpc/unary_call.h"

namespace fermata {
namespace {

class ScoreReactor final : public grpc::ServerUnaryReactor {
 public:
  ScoreReactor(const Front& front, const grpc::CallbackServerContext& context,
               const v1::ScoreRequest& request, v1::ScoreResponse* response)
      : front_(front),
        record_(front.metrics, "Score", request.request_id(), OriginOf(context)),
        response_(response) {
    const absl::Status status = Submit(request);
    if (!status.ok()) FinishCall(record_, status, this);
  }

  void OnCancel() override {
    std::shared_ptr<RequestHandle> handle;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      handle = handle_;
    }
    if (handle != nullptr) handle->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Submit(const v1::ScoreRequest& request) {
    FERMATA_ASSIGN_OR_RETURN(Runtime * runtime, front_.serving->runtime());
    FERMATA_ASSIGN_OR_RETURN(ScoreRequest score, ToScoreRequest(request));
    const auto done = [this](absl::StatusOr<ScoreResult> result) {
      front_.helper->Post([this, result = std::move(result)] { Answer(result); });
    };
    FERMATA_ASSIGN_OR_RETURN(std::shared_ptr<RequestHandle> handle,
                             runtime->engine().Score(std::move(score), done));
    bool cancelled;
    {
      const std::lock_guard lock(mutex_);
      handle_ = handle;
      cancelled = cancelled_;
    }
    if (cancelled) handle->Cancel();
    return absl::OkStatus();
  }

  // On the helper's thread: a long text with many log-probabilities makes a large reply.
  void Answer(const absl::StatusOr<ScoreResult>& result) {
    absl::Status status = result.status();
    if (status.ok()) {
      FillScore(*result, response_);
      status = CheckReplySize(front_, response_->ByteSizeLong());
    }
    FinishCall(record_, status, this);
  }

  const Front& front_;
  CallRecord record_;
  v1::ScoreResponse* const response_;

  std::mutex mutex_;
  std::shared_ptr<RequestHandle> handle_;
  bool cancelled_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* StartScore(const Front& front, const grpc::CallbackServerContext& context,
                                     const v1::ScoreRequest& request, v1::ScoreResponse* response) {
  return new ScoreReactor(front, context, request, response);
}

}  // namespace fermata
