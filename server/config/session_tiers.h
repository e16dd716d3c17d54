#ifndef FERMATA_SERVER_CONFIG_SESSION_TIERS_H_
#define FERMATA_SERVER_CONFIG_SESSION_TIERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// Where sessions live: memory, and a disk below it where one is named.
struct SessionTiers {
  struct Disk {
    std::string directory;
    int64_t quota_bytes = 0;       // 0: no quota.
    int64_t free_space_floor = 0;  // Bytes that are left free.
  };
  int64_t memory_bytes = 0;
  std::optional<Disk> disk;
};

// Reads `memory:SIZE[,disk:DIRECTORY[?quota=SIZE][&free_space_floor=SIZE]]`, sizes as ByteSize has
// them; a directory's name holds no comma and no question mark. INVALID_ARGUMENT, saying which part is
// wrong and what was expected.
absl::StatusOr<SessionTiers> ParseSessionTiers(std::string_view text);

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_SESSION_TIERS_H_
