#include "server/calls/snapshot_calls.h"

#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/calls/convert.h"

namespace fermata {

absl::Status SnapshotExport::Begin(const v1::ExportSessionRequest& request) {
  FERMATA_ASSIGN_OR_RETURN(runtime_, front_.serving->runtime());
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(request.id(), "id"));
  FERMATA_ASSIGN_OR_RETURN(from_, ToPlace(request.from(), "from"));
  FERMATA_ASSIGN_OR_RETURN(place_, front_.transfers->Take());
  id_ = request.id();
  return absl::OkStatus();
}

absl::Status SnapshotExport::Fetch(size_t part_bytes) {
  FERMATA_ASSIGN_OR_RETURN(SessionStore::Exported exported,
                           runtime_->sessions().Export(id_, from_));
  parts_.emplace(std::move(exported.head), std::move(exported.state), part_bytes);
  return absl::OkStatus();
}

absl::Status SnapshotImport::Begin() {
  FERMATA_ASSIGN_OR_RETURN(runtime_, front_.serving->runtime());
  FERMATA_RETURN_IF_ERROR(CheckKeepsSessions(runtime_->model()));
  FERMATA_ASSIGN_OR_RETURN(place_, front_.transfers->Take());
  assembly_.emplace(
      SnapshotAssembly::Options{.model_fingerprint = runtime_->session_fingerprint(),
                                .state_bytes = static_cast<size_t>(runtime_->model().state_bytes)});
  return absl::OkStatus();
}

absl::Status SnapshotImport::SetOptions(const v1::ImportOptions& options) {
  if (options_.has_value()) return InvalidField("options", "must come once, and first");
  FERMATA_ASSIGN_OR_RETURN(options_, ToImportOptions(options));
  return absl::OkStatus();
}

absl::Status SnapshotImport::Add(const v1::SnapshotPart& part) {
  if (!options_.has_value()) return InvalidField("options", "must come first");
  return assembly_->Add(part);
}

absl::Status SnapshotImport::Add(std::string_view bytes) { return assembly_->Add(bytes); }

absl::Status SnapshotImport::Commit(v1::Session* session) {
  if (!options_.has_value()) return InvalidField("options", "must come first");
  FERMATA_ASSIGN_OR_RETURN(const std::string snapshot, assembly_->Take());
  FERMATA_ASSIGN_OR_RETURN(const SessionRecord record,
                           runtime_->sessions().Import(snapshot, *options_));
  FillSession(record, runtime_->model(), front_.session_defaults, session);
  return absl::OkStatus();
}

}  // namespace fermata
