#include "engine/layers/token_shift.h"

#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr int64_t kDim = 37;

// Three sequences in a batch, in no order, against the definition.
TEST(TokenShiftTest, MixesEachTokenWithTheOneBefore) {
  StateLayout layout;
  layout.Add("other", {3});
  const TokenShift shift(kDim, "shift", layout);
  const auto x = RandomNormals(1, 7 * kDim);
  const auto mu = RandomNormals(2, 2 * kDim);
  std::vector<std::vector<float>> states;
  for (int i = 0; i < 3; ++i) states.push_back(RandomNormals(3 + i, 3 + kDim));
  const auto before = states;
  const SequenceRows sequences[] = {{.begin = 4, .count = 3, .state = states[0].data()},
                                    {.begin = 0, .count = 1, .state = states[1].data()},
                                    {.begin = 1, .count = 3, .state = states[2].data()}};
  Arena arena;
  const auto [first, second] = shift.Mix(
      sequences, x.data(), 7, std::array<const float*, 2>{mu.data(), mu.data() + kDim}, arena);
  for (size_t i = 0; i < 3; ++i) {
    const auto [begin, count, position, state, cache] = sequences[i];
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t j = 0; j < kDim; ++j) {
        const int64_t at = (begin + t) * kDim + j;
        const double now = x[at];
        const double last = t == 0 ? before[i][3 + j] : x[at - kDim];
        EXPECT_NEAR(first[at], now + mu[j] * (last - now), 1e-5);
        EXPECT_NEAR(second[at], now + mu[kDim + j] * (last - now), 1e-5);
      }
    }
    for (int64_t j = 0; j < kDim; ++j) {
      EXPECT_EQ(states[i][3 + j], x[(begin + count - 1) * kDim + j]);
    }
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(states[i][j], before[i][j]);
  }
}

}  // namespace
}  // namespace fermata
