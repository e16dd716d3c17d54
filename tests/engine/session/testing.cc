#include "tests/engine/session/testing.h"

#include <future>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/memory_tier.h"

namespace fermata {

SessionStoreOptions SmallStoreOptions(int64_t capacity, FakeClock& clock) {
  SessionStoreOptions options;
  options.model_fingerprint = "f00d";
  options.state_bytes = kTestStateBytes;
  options.memory_bytes = capacity * (kTestStateBytes + 2 * MemoryTier::kHeadRoom);
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

absl::StatusOr<SessionRecord> RunTurn(SessionStore& store, const std::string& id, int64_t position,
                                      uint8_t fill) {
  FERMATA_ASSIGN_OR_RETURN(SessionStore::Lease lease, store.Begin(Creating(id)));
  FERMATA_RETURN_IF_ERROR(lease.Fetch());
  SessionRecord record = lease.record();
  record.position = position;
  record.pending_token = 7;
  return CommitTurn(lease, record, Filled(fill));
}

absl::StatusOr<SessionRecord> CommitTurn(SessionStore::Lease& lease, const SessionRecord& record,
                                         const std::vector<std::byte>& state) {
  std::promise<absl::StatusOr<SessionRecord>> committed;
  lease.Commit(record, state, [&committed](absl::StatusOr<SessionRecord> result) {
    committed.set_value(std::move(result));
  });
  return committed.get_future().get();
}

std::vector<std::byte> Filled(uint8_t fill) {
  return std::vector<std::byte>(kTestStateBytes, std::byte{fill});
}

SessionStore::Lease MustBegin(SessionStore& store, const std::string& id) {
  absl::StatusOr<SessionStore::Lease> lease = store.Begin(Creating(id));
  EXPECT_TRUE(lease.ok()) << lease.status();
  const absl::Status fetched = lease->Fetch();
  EXPECT_TRUE(fetched.ok()) << fetched;
  return *std::move(lease);
}

std::vector<std::byte> StateOf(SessionStore& store, const std::string& id) {
  std::vector<std::byte> state = Filled(0xEE);
  const absl::Status read = MustBegin(store, id).ReadState(state);
  EXPECT_TRUE(read.ok()) << read;
  return state;
}

}  // namespace fermata
