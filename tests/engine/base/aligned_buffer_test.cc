#include "engine/base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(AlignedBufferTest, IsAlignedAndZeroed) {
  for (const size_t size : {1, 3, 64, 1000}) {
    AlignedBuffer<float> buffer(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes(), size * sizeof(float));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0);
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](float f) { return f == 0; }));
    std::fill(buffer.begin(), buffer.end(), 1.0f);  // So that the next one finds used memory.
  }
}

TEST(AlignedBufferTest, ToBeFilledIsAsLargeAndAligned) {
  for (const size_t size : {0, 1, 15, 1000, 1 << 20}) {
    auto buffer = AlignedBuffer<float>::ToBeFilled(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0);
    std::fill(buffer.begin(), buffer.end(), 1.0f);
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](float f) { return f == 1; }));
  }
}

TEST(AlignedBufferTest, MovingEmptiesTheSource) {
  AlignedBuffer<int> first(4);
  first[2] = 7;
  const int* data = first.data();
  AlignedBuffer<int> second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second[2], 7);
  EXPECT_EQ(first.size(), 0);
  EXPECT_EQ(first.data(), nullptr);
  AlignedBuffer<int> third(1);
  third = std::move(second);
  EXPECT_EQ(third.size(), 4);
  EXPECT_TRUE(second.empty());
}

TEST(AlignedBufferTest, EmptyHoldsNothing) {
  AlignedBuffer<float> buffer(0);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.span().size(), 0);
}

}  // namespace
}  // namespace fermata
