#include "server/calls/snapshot_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "xxhash.h"

namespace fermata {
namespace {

constexpr size_t kPartBytes = 1 << 20;
// Of a message beside its data: tags, lengths, total and checksum.
constexpr size_t kPartOverhead = 64;
constexpr size_t kSnapshotHeaderBytes = 64;  // As FORMAT.md has it: the least.

absl::Status Damaged(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, std::string(what),
                   {.reason = "SNAPSHOT_DAMAGED", .metadata = {}, .retry_after = {}});
}

}  // namespace

RunningChecksum::RunningChecksum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

void RunningChecksum::Add(const void* data, size_t size) {
  XXH3_64bits_update(state_.get(), data, size);
}

uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(state_.get()); }

void RunningChecksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

size_t PartBytes(size_t max_message_bytes) {
  return std::min(kPartBytes, max_message_bytes - kPartOverhead);
}

SnapshotParts::SnapshotParts(std::string head, std::vector<std::byte> state, size_t part_bytes)
    : head_(std::move(head)), state_(std::move(state)), part_bytes_(part_bytes) {}

uint64_t SnapshotParts::Checksum() const {
  RunningChecksum checksum;
  checksum.Add(head_.data(), head_.size());
  checksum.Add(state_.data(), state_.size());
  return checksum.value();
}

void SnapshotParts::Next(v1::SnapshotPart* part) {
  if (sent_ == 0) part->set_total_bytes(static_cast<int64_t>(total()));
  std::string* data = part->mutable_data();
  const size_t end = std::min(total(), sent_ + part_bytes_);
  data->reserve(end - sent_);
  if (sent_ < head_.size()) data->append(head_, sent_, end - sent_);
  if (end > head_.size()) {
    const size_t from = std::max(sent_, head_.size()) - head_.size();
    data->append(reinterpret_cast<const char*>(state_.data()) + from, end - head_.size() - from);
  }
  checksum_.Add(data->data(), data->size());
  sent_ = end;
  if (done()) part->set_checksum(checksum_.value());
}

absl::Status SnapshotAssembly::CheckTotal(size_t total, std::string_view head) const {
  if (total <= limit()) return absl::OkStatus();
  // Too long for this model: its head tells whether it is another's.
  const absl::StatusOr<SnapshotHead> decoded = DecodeSnapshotHead(head);
  if (!decoded.ok() && !absl::IsDataLoss(decoded.status())) return decoded.status();
  if (!decoded.ok() || decoded->record.model_fingerprint == options_.model_fingerprint) {
    return Damaged(absl::StrCat("no snapshot of this model has ", total, " bytes"));
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "the snapshot is another model's",
                   {.reason = "SNAPSHOT_MODEL",
                    .metadata = {{"model_fingerprint", decoded->record.model_fingerprint},
                                 {"expected_model_fingerprint", options_.model_fingerprint}},
                    .retry_after = {}});
}

absl::Status SnapshotAssembly::Begin(const v1::SnapshotPart& part) {
  if (part.total_bytes() <= 0) {
    return InvalidField("part.total_bytes", "must be told with the first part");
  }
  const auto total = static_cast<size_t>(part.total_bytes());
  FERMATA_RETURN_IF_ERROR(CheckTotal(total, part.data()));
  if (total < kSnapshotHeaderBytes) {
    return Damaged(absl::StrCat("no snapshot has ", total, " bytes only"));
  }
  total_ = total;
  bytes_.reserve(total_);
  return absl::OkStatus();
}

absl::Status SnapshotAssembly::Add(const v1::SnapshotPart& part) {
  if (total_ == 0) {
    FERMATA_RETURN_IF_ERROR(Begin(part));
  } else if (part.total_bytes() != 0 && static_cast<size_t>(part.total_bytes()) != total_) {
    return InvalidField("part.total_bytes", "is not that of the first part");
  }
  if (part.data().size() > total_ - bytes_.size()) {
    return InvalidField("part.data", absl::StrCat("goes beyond the ", total_, " bytes told"));
  }
  bytes_.append(part.data());
  checksum_.Add(part.data().data(), part.data().size());
  if (bytes_.size() == total_ && !part.data().empty() && part.checksum() != checksum_.value()) {
    return Damaged("the bytes that came are not those that part.checksum is of");
  }
  return absl::OkStatus();
}

absl::Status SnapshotAssembly::Add(std::string_view bytes) {
  if (bytes_.empty()) bytes_.reserve(limit());
  const size_t room = limit() - bytes_.size();
  bytes_.append(bytes.substr(0, room));
  return bytes.size() <= room ? absl::OkStatus() : CheckTotal(limit() + 1, bytes_);
}

absl::StatusOr<std::string> SnapshotAssembly::Take() {
  if (bytes_.empty() || bytes_.size() < total_) {
    return InvalidField("part.data", absl::StrCat("the stream ended after ", bytes_.size(), " of ",
                                                  total_, " bytes"));
  }
  return std::move(bytes_);
}

}  // namespace fermata
