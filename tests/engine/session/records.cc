#include "tests/engine/session/records.h"

#include "engine/base/error.h"

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
  record.revision = 50;
  record.durability = Durability::kDisk;
  record.max_checkpoints = 3;
  record.pinned = true;
  record.parent_id = "parent";
  record.parent_position = 77;
  record.checkpoints = {{.snapshot = {.key = 5, .state = 4},
                         .position = 1000,
                         .turns = 2,
                         .time = absl::FromUnixNanos(1'650'000'000'000'000'003)},
                        {.snapshot = {.key = 1'000'000'007, .state = 1'000'000'007},
                         .position = 123'456'789'011,
                         .turns = 41,
                         .time = absl::FromUnixNanos(1'660'000'000'000'000'004)}};
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

std::string Reason(const absl::Status& status) {
  return absl::StatusCodeToString(status.code()) + " " + DetailsOf(status).reason;
}

}  // namespace fermata
