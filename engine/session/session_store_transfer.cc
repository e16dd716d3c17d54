// Export and import.

#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/session_errors.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

// Of the first number that is not finite, from the state's beginning.
std::optional<size_t> FirstNotFinite(std::span<const std::byte> state) {
  for (size_t at = 0; at + sizeof(float) <= state.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, state.data() + at, sizeof(value));
    if (!std::isfinite(value)) return at;
  }
  return std::nullopt;
}

// What the tiers call data that was lost is a client's wrong input.
absl::Status AsInput(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  return MakeError(absl::StatusCode::kInvalidArgument, std::string(status.message()),
                   DetailsOf(status));
}

absl::Status AnotherModel(std::string_view field, std::string_view theirs, std::string_view ours) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "the snapshot is another model's: its " + std::string(field) + " is " +
                       std::string(theirs) + ", this server's is " + std::string(ours),
                   {.reason = "SNAPSHOT_MODEL",
                    .metadata = {{std::string(field), std::string(theirs)},
                                 {"expected_" + std::string(field), std::string(ours)}},
                    .retry_after = {}});
}

}  // namespace

absl::StatusOr<SessionStore::Exported> SessionStore::Export(std::string_view id,
                                                            const Place& place) const {
  Exported exported;
  SnapshotKey read;
  absl::Status failed;
  {
    FERMATA_ASSIGN_OR_RETURN(const Impl::Source source,
                             impl_->OpenSource(id, place, {}, /*block=*/true));
    read = source.place.key();
    exported.record = source.record;
    exported.record.checkpoints.clear();
    exported.state.resize(static_cast<size_t>(impl_->options.state_bytes));
    failed = source.place.in_memory ? impl_->memory.State(read, exported.state)
                                    : impl_->lower->State(read, exported.state);
  }
  if (!failed.ok()) return impl_->Explain(id, read, failed);
  exported.head = EncodeSnapshotHead(
      {}, exported.record,
      {.bytes = exported.state.size(), .checksum = StateChecksum(exported.state)});
  return exported;
}

absl::StatusOr<SessionRecord> SessionStore::Impl::CheckImport(const DecodedSnapshot& snapshot,
                                                              size_t state_offset) const {
  const SessionRecord& theirs = snapshot.record;
  if (theirs.model_fingerprint != options.model_fingerprint) {
    return AnotherModel("model_fingerprint", theirs.model_fingerprint, options.model_fingerprint);
  }
  if (snapshot.state.size() != static_cast<size_t>(options.state_bytes)) {
    return AnotherModel("state_bytes", std::to_string(snapshot.state.size()),
                        std::to_string(options.state_bytes));
  }
  if (const std::optional<size_t> at = FirstNotFinite(snapshot.state); at.has_value()) {
    return AsInput(DamagedSnapshot(state_offset + *at, "not a finite number"));
  }
  FERMATA_RETURN_IF_ERROR(ValidateLabels(theirs.labels, "labels"));
  if (theirs.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*theirs.ttl, "ttl"));
  SessionRecord record = theirs;
  record.update_time = options.clock();
  record.pinned = false;
  record.checkpoints.clear();
  if (lower == nullptr) record.durability.reset();
  return record;
}

absl::StatusOr<SessionRecord> SessionStore::Import(std::string_view snapshot,
                                                   const ImportOptions& options) {
  const absl::StatusOr<DecodedSnapshot> decoded = DecodeSnapshot(snapshot);
  if (!decoded.ok()) return AsInput(decoded.status());
  FERMATA_ASSIGN_OR_RETURN(SessionRecord record,
                           impl_->CheckImport(*decoded, snapshot.size() - decoded->state.size()));
  if (!options.id.empty()) record.id = options.id;
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(record.id, "id"));

  absl::StatusOr<Impl::Claim> claim = impl_->TakeNew(record.id);
  if (absl::IsAlreadyExists(claim.status()) && options.replace) {
    claim = impl_->Take(record.id, {.damaged = true});
  }
  if (!claim.ok()) return claim.status();
  // A revision that a client has seen must not come again for something else.
  if ((*claim)->settled) record.revision = std::max(record.revision, (*claim)->revision) + 1;
  FERMATA_RETURN_IF_ERROR(impl_->Establish(**claim, record, decoded->state));
  return record;
}

}  // namespace fermata
