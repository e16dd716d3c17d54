#include "engine/layers/part_clock.h"

#include <thread>
#include <vector>

#include "engine/layers/linear.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

using testing::ElementsAre;
using testing::Key;

TEST(PartClockTest, NotesProductsByShape) {
  RandomWeights weights(1);
  const WeightScope scope(weights, "m.");
  const Linear a = Linear::Read(scope, "a", 160, 96).value();
  const Linear b = Linear::Read(scope, "b", 160, 96).value();
  const Linear c = Linear::Read(scope, "c", 8, 96).value();
  const std::vector<float> x(3 * 96, 1.0f);
  Arena arena;
  const auto run = [&] {
    LinearGroup group(3, arena);
    group.Add(a, x.data());
    group.Add(b, x.data());
    group.Add(c, x.data());
    group.Run();
    c.Apply(x.data(), 3, arena);
  };
  run();  // For nobody.
  PartClock clock;
  EXPECT_EQ(PartClock::Current(), &clock);
  std::thread(run).join();  // On another thread.
  EXPECT_TRUE(clock.parts().empty());
  run();
  run();
  EXPECT_THAT(clock.parts(), ElementsAre(Key("2 x 160 x 96 f32, 8 x 96 f32"), Key("8 x 96 f32")));
  const PartClock::Part& group = clock.parts().begin()->second;
  EXPECT_EQ(group.multiply_adds, 2 * 3 * (2 * 160 + 8) * 96);
  EXPECT_GE(group.bytes, 2 * (2 * 160 + 8) * 96 * 4);
  EXPECT_GT(group.time.count(), 0);
}

TEST(PartClockTest, EndsWithItsScope) {
  { const PartClock clock; }
  EXPECT_EQ(PartClock::Current(), nullptr);
}

}  // namespace
}  // namespace fermata
