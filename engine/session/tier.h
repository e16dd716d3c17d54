#ifndef FERMATA_ENGINE_SESSION_TIER_H_
#define FERMATA_ENGINE_SESSION_TIER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/session/snapshot.h"

namespace fermata {

struct TierUsage {
  int64_t snapshots = 0;  // Reserved places too.
  int64_t bytes = 0;      // That they take from the limit.
  int64_t limit_bytes = 0;
  int64_t capacity = 0;  // Snapshots that fit in all.
};

// A place where snapshots live, by session id. Whatever a tier does inside, what Snapshot gives is
// exactly the bytes of FORMAT.md, so that a snapshot moves between tiers as it is.
//
// A tier decides nothing about sessions: who may use one, which goes first and when one expires is
// SessionStore's. All states of a tier have one size.
//
// Thread-safe, with one rule: Put, State, Snapshot and Erase of the same id are the caller's to
// keep apart, as they work on the state without a lock. Record and PutRecord may be called at any
// time, also while a Put of the same id runs; Record gives the old record or the new one.
//
// Errors: NOT_FOUND for an id without a snapshot (a place that is only reserved has none);
// DATA_LOSS, as DecodeSnapshot gives it, for bytes that were altered; RESOURCE_EXHAUSTED when full;
// INVALID_ARGUMENT for a state of another size or a record that fails CheckRecord.
class Tier {
 public:
  virtual ~Tier() = default;

  // Sets aside a place for `id`, so that Put can not fail for want of room. OK when it has one.
  virtual absl::Status Reserve(std::string_view id) = 0;

  // Makes `record` and `state` the snapshot of record.id, in a place that was reserved or that
  // holds a snapshot already. On an error the snapshot before, if any, is left as it was.
  virtual absl::Status Put(const SessionRecord& record, std::span<const std::byte> state) = 0;

  // Replaces the record of the snapshot of record.id, and leaves its state.
  virtual absl::Status PutRecord(const SessionRecord& record) = 0;

  virtual absl::StatusOr<SessionRecord> Record(std::string_view id) const = 0;

  // Copies the state to `state`, after checking nothing but that it is what was put. On an error
  // the contents of `state` are unspecified.
  virtual absl::Status State(std::string_view id, std::span<std::byte> state) const = 0;

  // The whole snapshot, as it is kept: not checked.
  virtual absl::StatusOr<std::string> Snapshot(std::string_view id) const = 0;

  // Gives up the place of `id`, with its snapshot if it has one. Nothing happens when it has none.
  virtual void Erase(std::string_view id) = 0;

  virtual TierUsage usage() const = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_TIER_H_
