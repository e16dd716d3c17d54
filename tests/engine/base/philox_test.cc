#include "engine/base/philox.h"

#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using testing::ElementsAre;

// The rows "philox4x32 10" of tests/kat_vectors in the authors' Random123 library.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(~0ull, ~0ull, ~0ull),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0, low words first.
  EXPECT_THAT(Philox(0x299f31d0'a4093822, 0x85a308d3'243f6a88, 0x03707344'13198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, UniformsLieInTheUnitInterval) {
  constexpr int kDraws = 200'000;
  double sum = 0;
  double squares = 0;
  std::set<double> seen;
  for (int i = 0; i < kDraws; ++i) {
    const double u = PhiloxUniform(42, i, 7);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    seen.insert(u);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
  EXPECT_EQ(seen.size(), kDraws);  // 53 bits do not meet so soon.
}

TEST(PhiloxTest, NormalsHaveTheMomentsOfNormals) {
  constexpr int kDraws = 200'000;
  double moments[5] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double x = PhiloxNormal(1, i, 0);
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (double& moment : moments) {
      moment += power / kDraws;
      power *= x;
    }
  }
  // The variance of x^n is (2n - 1)!! less the mean squared: 1, 2, 15, 96.
  EXPECT_NEAR(moments[1], 0, 5 * std::sqrt(1.0 / kDraws));
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15.0 / kDraws));
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96.0 / kDraws));
}

TEST(PhiloxTest, EveryPartOfTheNameCounts) {
  const double draws[] = {PhiloxUniform(0, 0, 0),          PhiloxUniform(1, 0, 0),
                          PhiloxUniform(0, 1, 0),          PhiloxUniform(0, 0, 1),
                          PhiloxUniform(1ull << 32, 0, 0), PhiloxUniform(0, 1ull << 32, 0),
                          PhiloxUniform(0, 0, 1ull << 32)};
  EXPECT_EQ(std::set<double>(std::begin(draws), std::end(draws)).size(), std::size(draws));
}

}  // namespace
}  // namespace fermata
