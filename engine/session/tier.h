#ifndef FERMATA_ENGINE_SESSION_TIER_H_
#define FERMATA_ENGINE_SESSION_TIER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/session/snapshot.h"

namespace fermata {

struct TierUsage {
  int64_t snapshots = 0;
  int64_t states = 0;  // Fewer, where snapshots share one.
  int64_t bytes = 0;   // That they take from the limit, room that is set aside included.
  int64_t limit_bytes = 0;
};

// What Put stores.
struct NewSnapshot {
  SnapshotName name;
  const SessionRecord* record = nullptr;
  // state_bytes long; may be empty where the tier has name.state already.
  std::span<const std::byte> state;
};

// A place where snapshots live, by key. A snapshot never changes: it is put, read and erased. Any
// number of snapshots can have one state, whose bytes a tier keeps once, for as long as one of them
// is there. Whatever a tier does inside, a snapshot's bytes are those of FORMAT.md.
//
// A tier decides nothing about sessions: which snapshot is whose, who goes first and when one
// expires is SessionStore's. All states of a tier have one size.
//
// Thread-safe; but the caller sees to it that a snapshot is not erased while its state is read. Calls
// may block for as long as the tier's medium takes.
//
// Errors: NOT_FOUND with reason SNAPSHOT_NOT_FOUND; DATA_LOSS as DecodeSnapshot gives it;
// RESOURCE_EXHAUSTED when full; INVALID_ARGUMENT for a record that fails CheckRecord or a state of
// another size; what the medium gives.
class Tier {
 public:
  virtual ~Tier() = default;

  // "memory", "disk"; names the tier in flags and metrics.
  virtual std::string_view name() const = 0;

  // Stores all of `snapshots`, at best at the price of one: when it returns, those that are OK will
  // be there after whatever the tier is safe against. One status each. A snapshot that failed is not
  // there.
  virtual std::vector<absl::Status> Put(std::span<const NewSnapshot> snapshots) = 0;
  virtual absl::StatusOr<SessionRecord> Record(SnapshotKey key) const = 0;
  // Copies the state of snapshot `key` to `state`, after checking that it is what was put. On an
  // error the contents of `state` are unspecified.
  virtual absl::Status State(SnapshotKey key, std::span<std::byte> state) const = 0;
  // Whether a snapshot with this state is kept.
  virtual bool HasState(SnapshotKey state) const = 0;
  // Removes snapshots; those that are not there are passed over. What is erased does not come back,
  // whatever happens after the return. Of one session's snapshots in `keys` the newest goes last:
  // whatever happens before the return, it is not gone while another of them is there.
  virtual absl::Status Erase(std::span<const SnapshotKey> keys) = 0;
  // Takes a damaged snapshot out, so that it is not there any more; a tier may keep its bytes
  // elsewhere for whoever looks into it.
  virtual absl::Status SetAside(SnapshotKey key) { return Erase({&key, 1}); }
  virtual TierUsage usage() const = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_TIER_H_
