#include "server/import_reactor.h"

#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/convert.h"
#include "server/snapshot_parts.h"
#include "server/unary_call.h"

namespace fermata {
namespace {

class ImportReactor final : public grpc::ServerReadReactor<v1::ImportSessionRequest> {
 public:
  ImportReactor(const Front& front, v1::Session* response)
      : front_(front), record_(front.metrics, "ImportSession"), response_(response) {
    if (const absl::Status status = Begin(); !status.ok()) {
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
  absl::Status Begin() {
    FERMATA_ASSIGN_OR_RETURN(runtime_, front_.serving->runtime());
    FERMATA_RETURN_IF_ERROR(CheckKeepsSessions(runtime_->model()));
    FERMATA_ASSIGN_OR_RETURN(place_, front_.transfers->Take());
    assembly_.emplace(SnapshotAssembly::Options{
        .model_fingerprint = runtime_->session_fingerprint(),
        .state_bytes = static_cast<size_t>(runtime_->model().state_bytes)});
    return absl::OkStatus();
  }

  absl::Status Take(const v1::ImportSessionRequest& piece) {
    if (piece.has_options()) {
      if (options_.has_value()) return InvalidField("options", "must come once, and first");
      FERMATA_ASSIGN_OR_RETURN(options_, ToImportOptions(piece.options()));
      return absl::OkStatus();
    }
    if (!options_.has_value()) return InvalidField("options", "must come first");
    if (!piece.has_part()) return InvalidField("piece", "must be set");
    return assembly_->Add(piece.part());
  }

  // All has come, or the client is gone: then something is missing.
  absl::Status Commit() {
    if (!options_.has_value()) return InvalidField("options", "must come first");
    FERMATA_ASSIGN_OR_RETURN(snapshot_, assembly_->Take());
    const bool posted = front_.sessions->TryPost([this] {
      const absl::StatusOr<SessionRecord> record =
          runtime_->sessions().Import(snapshot_, *options_);
      if (record.ok()) {
        FillSession(*record, runtime_->model(), front_.session_defaults, response_);
      }
      End(record.status());
    });
    return posted ? absl::OkStatus() : TooManyWait();
  }

  void End(const absl::Status& status) { FinishCall(record_, status, this); }

  const Front& front_;
  CallRecord record_;
  v1::Session* const response_;
  Runtime* runtime_ = nullptr;
  std::optional<TransferPlaces::Place> place_;
  v1::ImportSessionRequest piece_;  // Being read.
  std::optional<SessionStore::ImportOptions> options_;
  std::optional<SnapshotAssembly> assembly_;
  std::string snapshot_;
};

}  // namespace

grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(const Front& front,
                                                               v1::Session* response) {
  return new ImportReactor(front, response);
}

}  // namespace fermata
