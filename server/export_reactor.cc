#include "server/export_reactor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/convert.h"
#include "server/snapshot_parts.h"
#include "server/unary_call.h"

namespace fermata {
namespace {

// Every step runs on a thread of the sessions' own, one after another.
class ExportReactor final : public grpc::ServerWriteReactor<v1::SnapshotPart> {
 public:
  ExportReactor(const Front& front, const v1::ExportSessionRequest& request)
      : front_(front), record_(front.metrics, "ExportSession"), request_(request) {
    if (const absl::Status status = Begin(); !status.ok()) End(status);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(absl::CancelledError("the call was cancelled"));
    } else if (parts_->done()) {
      End(absl::OkStatus());
    } else {
      front_.sessions->Post([this] { WriteNext(); });
    }
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Begin() {
    FERMATA_ASSIGN_OR_RETURN(Runtime * runtime, front_.serving->runtime());
    FERMATA_RETURN_IF_ERROR(ValidateSessionId(request_.id(), "id"));
    FERMATA_ASSIGN_OR_RETURN(const auto place, ToPlace(request_.from(), "from"));
    FERMATA_ASSIGN_OR_RETURN(place_, front_.transfers->Take());
    const bool posted = front_.sessions->TryPost([this, runtime, place] {
      absl::StatusOr<SessionStore::Exported> exported =
          runtime->sessions().Export(request_.id(), place);
      if (!exported.ok()) return End(exported.status());
      parts_.emplace(std::move(exported->head), std::move(exported->state),
                     PartBytes(front_.max_message_bytes));
      WriteNext();
    });
    return posted ? absl::OkStatus() : TooManyWait();
  }

  void WriteNext() {
    part_.Clear();
    parts_->Next(&part_);
    StartWrite(&part_);
  }

  void End(const absl::Status& status) { FinishCall(record_, status, this); }

  const Front& front_;
  CallRecord record_;
  const v1::ExportSessionRequest request_;
  std::optional<TransferPlaces::Place> place_;
  std::optional<SnapshotParts> parts_;
  v1::SnapshotPart part_;  // Being written.
};

}  // namespace

grpc::ServerWriteReactor<v1::SnapshotPart>* StartExport(const Front& front,
                                                        const v1::ExportSessionRequest& request) {
  return new ExportReactor(front, request);
}

}  // namespace fermata
