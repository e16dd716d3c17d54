#include "tests/engine/session/testing.h"

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/memory_tier.h"

namespace fermata {

SessionRecord FullRecord(std::string_view id) {
  SessionRecord record;
  record.id = id;
  record.model_fingerprint = "0123456789abcdef0123456789abcdef";
  record.position = 123'456'789'012;
  record.pending_token = 65'000;
  record.sampler_memory = std::string("\x01\x00\x00\x00\xff", 5);
  record.labels = {{"user", "ann"}, {"uses", "two"}, {"empty", ""}, {"topic", "gr\xc3\xbcn"}};
  record.create_time = absl::FromUnixNanos(1'600'000'000'000'000'001);
  record.update_time = absl::FromUnixNanos(1'700'000'000'000'000'002);
  record.ttl = absl::Seconds(90) + absl::Nanoseconds(3);
  record.turns = 42;
  return record;
}

std::vector<std::byte> SomeState(size_t size, uint8_t seed) {
  std::vector<std::byte> state(size);
  uint32_t value = seed + 1;
  for (std::byte& byte : state) {
    value = value * 1664525 + 1013904223;
    byte = static_cast<std::byte>(value >> 24);
  }
  return state;
}

std::string AsText(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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

std::string Reason(const absl::Status& status) {
  return absl::StatusCodeToString(status.code()) + " " + DetailsOf(status).reason;
}

}  // namespace fermata
