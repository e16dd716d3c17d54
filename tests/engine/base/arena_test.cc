#include "engine/base/arena.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(ArenaTest, PiecesAreAlignedAndDoNotOverlap) {
  Arena arena;
  struct Piece {
    float* data;
    int64_t count;
  };
  std::vector<Piece> pieces;
  // Past the first block, and one larger than a block.
  for (int64_t count : {1, 17, 100'000, 200'000, 5, 600'000, 3}) {
    float* data = arena.Floats(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kBufferAlignment, 0);
    std::fill_n(data, count, static_cast<float>(pieces.size()));
    pieces.push_back({data, count});
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_TRUE(std::all_of(pieces[i].data, pieces[i].data + pieces[i].count,
                            [i](float f) { return f == static_cast<float>(i); }))
        << "piece " << i;
  }
}

TEST(ArenaTest, ScopesGiveBackWhatTheyTook) {
  Arena arena;
  float* kept = arena.Floats(10);
  kept[9] = 3;
  float* first;
  {
    const Arena::Scope scope(arena);
    first = arena.Floats(1000);
    {
      const Arena::Scope inner(arena);
      EXPECT_NE(arena.Floats(1'000'000), first);
    }
    EXPECT_EQ(arena.Floats(1000) - first, 1008);  // Whole cache lines.
  }
  EXPECT_EQ(arena.Floats(1000), first);
  EXPECT_EQ(kept[9], 3);
}

TEST(ArenaTest, ASteadyLoadReusesItsBlocks) {
  Arena arena;
  std::vector<float*> first;
  for (int pass = 0; pass < 3; ++pass) {
    const Arena::Scope scope(arena);
    std::vector<float*> taken;
    for (int i = 0; i < 10; ++i) taken.push_back(arena.Floats(150'000));
    if (pass == 0) first = taken;
    EXPECT_EQ(taken, first);
  }
}

}  // namespace
}  // namespace fermata
