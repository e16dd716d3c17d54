#include "server/grpc/import_reactor.h"

#include "engine/base/error.h"
#include "server/calls/snapshot_calls.h"
#include "server/grpc/call_origin.h"
#include "server/grpc/unary_call.h"

namespace fermata {
namespace {

class ImportReactor final : public grpc::ServerReadReactor<v1::ImportSessionRequest> {
 public:
  ImportReactor(const Front& front, const grpc::CallbackServerContext& context,
                v1::Session* response)
      : front_(front),
        record_(front.metrics, "ImportSession", "", OriginOf(context)),
        response_(response),
        import_(front) {
    if (const absl::Status status = import_.Begin(); !status.ok()) {
      End(status);
    } else {
      StartRead(&piece_);
    }
  }

  void OnReadDone(bool ok) override {
    const absl::Status status = ok ? Take(piece_) : Commit();
    if (!status.ok()) {
      End(status);
    } else if (ok) {
      StartRead(&piece_);
    }
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Take(const v1::ImportSessionRequest& piece) {
    if (piece.has_options()) return import_.SetOptions(piece.options());
    if (piece.has_part()) return import_.Add(piece.part());
    return InvalidField("piece", "must be set");
  }

  // All has come, or the client is gone: then something is missing.
  absl::Status Commit() {
    const bool posted = front_.sessions->TryPost([this] { End(import_.Commit(response_)); });
    return posted ? absl::OkStatus() : TooManyWait();
  }

  void End(const absl::Status& status) { FinishCall(record_, status, this); }

  const Front& front_;
  CallRecord record_;
  v1::Session* const response_;
  SnapshotImport import_;
  v1::ImportSessionRequest piece_;  // Being read.
};

}  // namespace

grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(
    const Front& front, const grpc::CallbackServerContext& context, v1::Session* response) {
  return new ImportReactor(front, context, response);
}

}  // namespace fermata
