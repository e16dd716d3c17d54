#include <random>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(SamplerMemoryTest, KeepsTheLastOfTheWindow) {
  SamplerMemory memory;
  for (int token = 0; token < kMaxPenaltyWindow + 10; ++token) memory.Append(token);
  ASSERT_EQ(memory.tokens().size(), static_cast<size_t>(kMaxPenaltyWindow));
  EXPECT_EQ(memory.tokens().front(), 10);
  EXPECT_EQ(memory.tokens().back(), kMaxPenaltyWindow + 9);
}

TEST(SamplerMemoryTest, BytesAreLittleEndianInt32) {
  SamplerMemory memory;
  EXPECT_EQ(memory.Serialize(), "");
  memory.Append(1);
  memory.Append(0x01020384);
  EXPECT_EQ(memory.Serialize(), std::string("\x01\0\0\0\x84\x03\x02\x01", 8));
}

TEST(SamplerMemoryTest, RoundTrips) {
  std::mt19937 random(9);
  for (const size_t size : {0, 1, 17, kMaxPenaltyWindow}) {
    SamplerMemory memory;
    for (size_t i = 0; i < size; ++i) memory.Append(static_cast<int32_t>(random() >> 1));
    const auto parsed = SamplerMemory::Parse(memory.Serialize());
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->tokens(), memory.tokens());
  }
}

TEST(SamplerMemoryTest, BrokenBytesAreDataLoss) {
  for (const std::string& bytes :
       {std::string("abc"), std::string(5, '\0'), std::string("\0\0\0\x80", 4),
        std::string(4, '\xFF'), std::string(4 * (kMaxPenaltyWindow + 1), '\0')}) {
    EXPECT_EQ(SamplerMemory::Parse(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace fermata
