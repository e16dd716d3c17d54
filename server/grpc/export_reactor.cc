#include "server/grpc/export_reactor.h"

#include "engine/base/status.h"
#include "server/calls/snapshot_calls.h"
#include "server/grpc/call_origin.h"
#include "server/grpc/unary_call.h"

namespace fermata {
namespace {

// Every step runs on a thread of the sessions' own, one after another.
class ExportReactor final : public grpc::ServerWriteReactor<v1::SnapshotPart> {
 public:
  ExportReactor(const Front& front, const grpc::CallbackServerContext& context,
                const v1::ExportSessionRequest& request)
      : front_(front),
        record_(front.metrics, "ExportSession", "", OriginOf(context)),
        export_(front) {
    if (const absl::Status status = Begin(request); !status.ok()) End(status);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(absl::CancelledError("the call was cancelled"));
    } else if (export_.parts().done()) {
      End(absl::OkStatus());
    } else {
      front_.sessions->Post([this] { WriteNext(); });
    }
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Begin(const v1::ExportSessionRequest& request) {
    FERMATA_RETURN_IF_ERROR(export_.Begin(request));
    const bool posted = front_.sessions->TryPost([this] {
      const absl::Status fetched = export_.Fetch(PartBytes(front_.max_message_bytes));
      if (!fetched.ok()) return End(fetched);
      WriteNext();
    });
    return posted ? absl::OkStatus() : TooManyWait();
  }

  void WriteNext() {
    part_.Clear();
    export_.parts().Next(&part_);
    StartWrite(&part_);
  }

  void End(const absl::Status& status) { FinishCall(record_, status, this); }

  const Front& front_;
  CallRecord record_;
  SnapshotExport export_;
  v1::SnapshotPart part_;  // Being written.
};

}  // namespace

grpc::ServerWriteReactor<v1::SnapshotPart>* StartExport(const Front& front,
                                                        const grpc::CallbackServerContext& context,
                                                        const v1::ExportSessionRequest& request) {
  return new ExportReactor(front, context, request);
}

}  // namespace fermata
