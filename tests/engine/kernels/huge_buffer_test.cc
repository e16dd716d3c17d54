#include "engine/kernels/huge_buffer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool Holds(const HugeBuffer& buffer, unsigned char value) {
  const auto* bytes = static_cast<const unsigned char*>(buffer.data());
  return std::all_of(bytes, bytes + buffer.bytes(),
                     [&](unsigned char byte) { return byte == value; });
}

TEST(HugeBufferTest, IsZeroedAlignedAndItsOwn) {
  std::vector<HugeBuffer> buffers;
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{500000}, kMiB,
                             2 * kMiB, 3 * kMiB, 31 * kMiB, 33 * kMiB, 100 * kMiB, size_t{7}}) {
    const HugeBuffer& buffer = buffers.emplace_back(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
    EXPECT_TRUE(Holds(buffer, 0)) << bytes;
    std::memset(buffer.data(), static_cast<int>(buffers.size()), bytes);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(Holds(buffers[i], static_cast<unsigned char>(i + 1))) << i;
  }
}

TEST(HugeBufferTest, IsZeroedWhereOthersWereBefore) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const HugeBuffer kept(1000);
    for (int i = 0; i < 3; ++i) {
      const HugeBuffer buffer(5 * kMiB);
      EXPECT_TRUE(Holds(buffer, 0));
      std::memset(buffer.data(), 1, buffer.bytes());
    }
    EXPECT_TRUE(Holds(kept, 0));
  }
}

TEST(HugeBufferTest, LivesOnWhereItIsMovedTo) {
  HugeBuffer first(100);
  void* data = first.data();
  std::memset(data, 5, 100);
  HugeBuffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  HugeBuffer third(10);
  third = std::move(second);
  EXPECT_TRUE(Holds(third, 5));
  EXPECT_EQ(HugeBuffer().data(), nullptr);
  EXPECT_EQ(HugeBuffer(0).data(), nullptr);
}

TEST(HugeBufferTest, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([thread] {
      std::vector<HugeBuffer> buffers;
      for (int i = 0; i < 200; ++i) {
        buffers.emplace_back(1 + i * 37);
        std::memset(buffers.back().data(), thread, buffers.back().bytes());
      }
      for (const HugeBuffer& buffer : buffers) {
        EXPECT_TRUE(Holds(buffer, static_cast<unsigned char>(thread)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fermata
