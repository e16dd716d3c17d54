#include "server/config/session_tiers.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

TEST(SessionTiersTest, MemoryAlone) {
  const auto tiers = ParseSessionTiers("memory:2GiB");
  ASSERT_TRUE(tiers.ok()) << tiers.status();
  EXPECT_EQ(tiers->memory_bytes, int64_t{2} << 30);
  EXPECT_FALSE(tiers->disk.has_value());
}

TEST(SessionTiersTest, MemoryAndDisk) {
  auto tiers = ParseSessionTiers("memory:1024,disk:/var/lib/fermata:a=b");
  ASSERT_TRUE(tiers.ok()) << tiers.status();
  EXPECT_EQ(tiers->memory_bytes, 1024);
  ASSERT_TRUE(tiers->disk.has_value());
  EXPECT_EQ(tiers->disk->directory, "/var/lib/fermata:a=b");
  EXPECT_EQ(tiers->disk->quota_bytes, 0);
  EXPECT_EQ(tiers->disk->free_space_floor, 0);

  tiers = ParseSessionTiers("memory:64MiB,disk:d?free_space_floor=1GiB&quota=100TiB");
  ASSERT_TRUE(tiers.ok()) << tiers.status();
  EXPECT_EQ(tiers->disk->directory, "d");
  EXPECT_EQ(tiers->disk->quota_bytes, int64_t{100} << 40);
  EXPECT_EQ(tiers->disk->free_space_floor, int64_t{1} << 30);
}

TEST(SessionTiersTest, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no tier ''"},
      {"1GiB", "no tier '1GiB'"},
      {"memory", "'memory': expected a whole number"},
      {"memory:", "'memory:': expected a whole number"},
      {"memory:lots", "'memory:lots'"},
      {"memory:-1", "'memory:-1'"},
      {"memory:1023", "at least 1024"},
      {"disk:/d", "memory:SIZE must come first"},
      {"disk:/d,memory:1GiB", "memory:SIZE must come first"},
      {"memory:1GiB,memory:2GiB", "memory is given twice"},
      {"memory:1GiB,redis:host", "no tier 'redis'"},
      {"memory:1GiB,", "no tier ''"},
      {"memory:1GiB,disk", "names no directory"},
      {"memory:1GiB,disk:", "names no directory"},
      {"memory:1GiB,disk:?quota=1GiB", "names no directory"},
      {"memory:1GiB,disk:/a,disk:/b", "one disk only"},
      {"memory:1GiB,disk:/d?", "no option ''"},
      {"memory:1GiB,disk:/d?quotas=1GiB", "no option 'quotas'"},
      {"memory:1GiB,disk:/d?quota", "'quota': expected a whole number"},
      {"memory:1GiB,disk:/d?quota=much", "'quota=much'"},
      {"memory:1GiB,disk:/d?quota=0", "at least 1 "},
      {"memory:1GiB,disk:/d?quota=1GiB&quota=2GiB", "given twice"},
      {"memory:1GiB,disk:/d?quota=1GiB&", "no option ''"},
      {"memory:9223372036854775807", "at least"},
  };
  for (const auto& [text, part] : cases) {
    const auto tiers = ParseSessionTiers(text);
    ASSERT_FALSE(tiers.ok()) << text;
    EXPECT_EQ(tiers.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(tiers.status().message()), HasSubstr(part)) << text;
  }
}

}  // namespace
}  // namespace fermata
