#include "tests/engine/session/testing.h"

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/memory_tier.h"

namespace fermata {

SessionStoreOptions SmallStoreOptions(int64_t capacity, FakeClock& clock) {
  SessionStoreOptions options;
  options.model_fingerprint = "f00d";
  options.state_bytes = kTestStateBytes;
  options.memory_bytes = capacity * MemoryTier(kTestStateBytes, /*memory_bytes=*/0).session_bytes();
  options.retry_after = absl::Seconds(3);
  options.clock = [&clock] { return clock.Now(); };
  return options;
}

SessionStore::BeginOptions Creating(const std::string& id) {
  SessionStore::BeginOptions options;
  options.id = id;
  options.create_if_missing = true;
  return options;
}

SessionStore::BeginOptions Existing(const std::string& id) {
  SessionStore::BeginOptions options;
  options.id = id;
  return options;
}

std::unique_ptr<SessionStore> SmallStore(int64_t capacity, FakeClock& clock) {
  return std::make_unique<SessionStore>(SmallStoreOptions(capacity, clock));
}

absl::Status RunTurn(SessionStore& store, const std::string& id, int64_t position, uint8_t fill) {
  FERMATA_ASSIGN_OR_RETURN(SessionStore::Lease lease, store.Begin(Creating(id)));
  SessionRecord record = lease.record();
  record.position = position;
  record.pending_token = 7;
  lease.Commit(record, std::vector<std::byte>(kTestStateBytes, std::byte{fill}));
  return absl::OkStatus();
}

SessionStore::Lease MustBegin(SessionStore& store, const std::string& id) {
  absl::StatusOr<SessionStore::Lease> lease = store.Begin(Creating(id));
  EXPECT_TRUE(lease.ok()) << lease.status();
  return *std::move(lease);
}

std::vector<std::byte> StateOf(SessionStore& store, const std::string& id) {
  std::vector<std::byte> state(kTestStateBytes, std::byte{0xEE});
  const absl::Status read = MustBegin(store, id).ReadState(state);
  EXPECT_TRUE(read.ok()) << read;
  return state;
}

}  // namespace fermata
