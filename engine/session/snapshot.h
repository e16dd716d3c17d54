#ifndef FERMATA_ENGINE_SESSION_SNAPSHOT_H_
#define FERMATA_ENGINE_SESSION_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fermata {

// A snapshot's number among all that a store ever made: ascending, never used twice; 0 is none.
using SnapshotKey = uint64_t;

// A snapshot, and the state it has: named after the snapshot that had it first. Snapshots of one
// state have the same bytes for it, and share them where they lie together.
struct SnapshotName {
  SnapshotKey key = 0;
  SnapshotKey state = 0;

  bool operator==(const SnapshotName&) const = default;
};

// What a commit must have reached before its client hears of it.
enum class Durability : uint8_t {
  kMemory = 1,  // Gone with the process.
  kDisk = 2,    // There after kill -9 and loss of power.
};

// A snapshot that a session can be taken back to.
struct Checkpoint {
  SnapshotName snapshot;
  int64_t position = 0;
  uint64_t turns = 0;  // Committed turns when it was the session's newest.
  absl::Time time;     // Of its commit.

  bool operator==(const Checkpoint&) const = default;
};

// All of a session but its state. A session that has never been given a token has position 0 and no
// pending token; every other one has exactly one pending token.
struct SessionRecord {
  std::string id;
  std::string model_fingerprint;
  int64_t position = 0;  // Tokens consumed by the state.
  std::optional<int32_t> pending_token;
  std::string sampler_memory;  // Opaque here; SamplerMemory::Serialize.
  std::map<std::string, std::string> labels;
  absl::Time create_time;                // Times and ttl are kept in whole nanoseconds.
  absl::Time update_time;                // Of the last commit or update.
  std::optional<absl::Duration> ttl;     // Since update_time; none lives until evicted or deleted.
  uint64_t turns = 0;                    // Committed turns.
  uint64_t revision = 0;                 // Changes so far: commits, updates, rewinds.
  std::optional<Durability> durability;  // Of its commits; none: as the store's default.
  std::optional<int32_t> max_checkpoints;  // To keep; none: as the store's default.
  bool pinned = false;                     // Neither used up by turns nor dropped; to be forked.
  std::string parent_id;                   // Forked from; empty: from none.
  int64_t parent_position = 0;             // And where.
  std::vector<Checkpoint> checkpoints;     // Oldest first.

  bool operator==(const SessionRecord&) const = default;
};

// Bounds of what a record holds; a snapshot beyond them is refused.
inline constexpr size_t kMaxSessionIdBytes = 128;
inline constexpr size_t kMaxFingerprintBytes = 64;
inline constexpr size_t kMaxSamplerMemoryBytes = 4 * 4096;  // Of the longest penalty window.
inline constexpr int kMaxLabels = 32;
inline constexpr size_t kMaxLabelKeyBytes = 63;
inline constexpr size_t kMaxLabelValueBytes = 255;
inline constexpr int kMaxCheckpoints = 64;

// What those bounds come to, in bytes (FORMAT.md): the longest record, and the longest head
// (header, record and padding).
inline constexpr size_t kMaxRecordBytes =
    72 + (4 + kMaxSessionIdBytes) + (4 + kMaxFingerprintBytes) + (4 + kMaxSessionIdBytes) +
    (4 + kMaxSamplerMemoryBytes) + kMaxLabels * (4 + kMaxLabelKeyBytes + 4 + kMaxLabelValueBytes) +
    kMaxCheckpoints * 40;
inline constexpr size_t kMaxSnapshotHeadBytes = (64 + kMaxRecordBytes + 63) / 64 * 64;

// OK when `record` keeps the bounds above and its fields agree (a pending token for every position
// but 0, no negative position, token or ttl, checkpoints in the order of their keys); else
// INVALID_ARGUMENT naming the field.
absl::Status CheckRecord(const SessionRecord& record);

// What a head says of the state that belongs to it.
struct StateInfo {
  size_t bytes = 0;
  uint64_t checksum = 0;   // StateChecksum.
  bool elsewhere = false;  // In another file of the directory; else it follows the head.

  bool operator==(const StateInfo&) const = default;
};

uint64_t StateChecksum(std::span<const std::byte> state);

// A snapshot's first part, which can be kept apart from a state that need not be copied: the head's
// `size` bytes followed by the state's are the snapshot. An export has no name (both keys are 0) and
// no checkpoints.
struct SnapshotHead {
  SnapshotName name;
  SessionRecord record;
  StateInfo state;
  size_t size = 0;  // Of the head, a multiple of 64; the state begins here.
};

// `record` must pass CheckRecord. `name` has both keys or none; with none, `record` must have no
// checkpoints and the state must not be elsewhere.
std::string EncodeSnapshotHead(const SnapshotName& name, const SessionRecord& record,
                               const StateInfo& state);

// Decodes the head that `bytes` begin with, checking all but the state; what follows it is not
// looked at. Errors as DecodeSnapshot.
absl::StatusOr<SnapshotHead> DecodeSnapshotHead(std::string_view bytes);

// A snapshot taken apart. `state` points into the bytes that were decoded.
struct DecodedSnapshot {
  SnapshotName name;
  SessionRecord record;
  std::span<const std::byte> state;
};

// The bytes of a session as FORMAT.md lays out an export: without a name and without the record's
// checkpoints. `record` must pass CheckRecord.
std::string EncodeExport(const SessionRecord& record, std::span<const std::byte> state);

// Takes a whole snapshot apart, an export or one of a directory, after checking every checksum.
// FAILED_PRECONDITION, reason SNAPSHOT_VERSION, for a format version that this build does not read,
// and reason SNAPSHOT_STATE_ELSEWHERE for a file that refers to its state; DATA_LOSS, reason
// SNAPSHOT_DAMAGED and metadata {"offset"}, for bytes that are torn or altered. Whether the snapshot
// belongs to the model at hand is the caller's to check.
absl::StatusOr<DecodedSnapshot> DecodeSnapshot(std::string_view bytes);

// DATA_LOSS as DecodeSnapshot gives it: for the byte at `offset` being wrong for the reason `why`,
// and for the state at `offset` not matching its checksum.
absl::Status DamagedSnapshot(size_t offset, std::string_view why);
absl::Status DamagedState(size_t offset);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SNAPSHOT_H_
