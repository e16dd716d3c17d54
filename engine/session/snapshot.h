#ifndef FERMATA_ENGINE_SESSION_SNAPSHOT_H_
#define FERMATA_ENGINE_SESSION_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fermata {

// All of a session but its state. A session that has never been given a token has position 0 and no
// pending token; every other one has exactly one pending token.
struct SessionRecord {
  std::string id;
  std::string model_fingerprint;
  int64_t position = 0;  // Tokens consumed by the state.
  std::optional<int32_t> pending_token;
  std::string sampler_memory;  // Opaque here; SamplerMemory::Serialize.
  std::map<std::string, std::string> labels;
  absl::Time create_time;
  absl::Time update_time;             // Of the last commit or update.
  std::optional<absl::Duration> ttl;  // Since the last use; none lives until evicted or deleted.
  uint64_t turns = 0;                 // Committed turns.
};

// A snapshot taken apart. `state` points into the bytes that were decoded.
struct DecodedSnapshot {
  SessionRecord record;
  std::span<const std::byte> state;
};

// The bytes of a session as FORMAT.md lays them out: the same in every tier and in an export.
std::string EncodeSnapshot(const SessionRecord& record, std::span<const std::byte> state);

// Takes `bytes` apart after checking every checksum. FAILED_PRECONDITION for a format version that
// this build does not read; DATA_LOSS, with the offset, for bytes that are torn or altered. Whether
// the snapshot belongs to the model at hand is the caller's to check.
absl::StatusOr<DecodedSnapshot> DecodeSnapshot(std::string_view bytes);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SNAPSHOT_H_
