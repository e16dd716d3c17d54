#ifndef FERMATA_TESTS_ENGINE_SESSION_TESTING_H_
#define FERMATA_TESTS_ENGINE_SESSION_TESTING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/session/session_store.h"
#include "engine/session/snapshot.h"
#include "gmock/gmock.h"
#include "tests/engine/session/records.h"

namespace fermata {

// A clock that moves when told to.
class FakeClock {
 public:
  absl::Time Now() const { return absl::FromUnixNanos(now_); }
  void Advance(absl::Duration by) { now_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> now_ = 1'700'000'000'123'456'789;
};

// Large against what is set aside for records, so that a small number of sessions is exact.
inline constexpr int64_t kTestStateBytes = 512 * 1024;

// A store in which `capacity` sessions fit, at a time that `clock` tells.
SessionStoreOptions SmallStoreOptions(int64_t capacity, FakeClock& clock);
std::unique_ptr<SessionStore> SmallStore(int64_t capacity, FakeClock& clock);

SessionStore::BeginOptions Creating(const std::string& id);
SessionStore::BeginOptions Existing(const std::string& id);

// Runs a turn on `id`, creating it, that ends at `position` with every byte of the state `fill`.
absl::StatusOr<SessionRecord> RunTurn(SessionStore& store, const std::string& id, int64_t position,
                                      uint8_t fill);

// Commits a turn, and waits until that is done.
absl::StatusOr<SessionRecord> CommitTurn(SessionStore::Lease& lease, const SessionRecord& record,
                                         const std::vector<std::byte>& state);

// A state of kTestStateBytes.
std::vector<std::byte> Filled(uint8_t fill);

// A turn on `id` that must begin and find its state, left open.
SessionStore::Lease MustBegin(SessionStore& store, const std::string& id);

// The state that a turn on `id` finds.
std::vector<std::byte> StateOf(SessionStore& store, const std::string& id);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SESSION_TESTING_H_
