#include "engine/kernels/wkv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/kernels/recurrence_testing.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

struct Wkv {
  int64_t count = 0;
  int64_t dim = 0;
  std::vector<float> k, v, o;
  std::vector<float> log_decay, bonus;
  std::vector<float> num, den, max;

  WkvRun Run(int64_t begin, int64_t end) {
    return {.count = end - begin,
            .dim = dim,
            .k = k.data() + begin * dim,
            .k_stride = dim,
            .v = v.data() + begin * dim,
            .v_stride = dim,
            .o = o.data() + begin * dim,
            .o_stride = dim,
            .log_decay = log_decay.data(),
            .bonus = bonus.data(),
            .num = num.data(),
            .den = den.data(),
            .max = max.data()};
  }
  WkvRun Run() { return Run(0, count); }
};

// From an empty state. Decays from next to none to all but everything.
Wkv RandomWkv(int64_t count, int64_t dim, float key_size) {
  Wkv wkv{.count = count,
          .dim = dim,
          .k = RandomNormals(1, count * dim),
          .v = RandomNormals(2, count * dim),
          .o = std::vector<float>(count * dim, NAN),
          .log_decay = RandomNormals(3, dim),
          .bonus = RandomNormals(4, dim),
          .num = std::vector<float>(dim),
          .den = std::vector<float>(dim),
          .max = std::vector<float>(dim)};
  for (float& k : wkv.k) k *= key_size;
  for (float& w : wkv.log_decay) w = -std::exp(3 * w - 3);
  return wkv;
}

struct Wkv64 {
  std::vector<double> o, num, den, max;
};

// The formula of wkv.h as it stands there, but for the exponents' maximum, which is taken out of
// both sums.
double Weighted(const Wkv& wkv, int64_t t, int64_t channel) {
  const double w = wkv.log_decay[channel];
  std::vector<double> exponents;
  for (int64_t s = 0; s < t; ++s) {
    exponents.push_back(static_cast<double>(t - 1 - s) * w + wkv.k[s * wkv.dim + channel]);
  }
  exponents.push_back(static_cast<double>(wkv.bonus[channel]) + wkv.k[t * wkv.dim + channel]);
  const double max = *std::max_element(exponents.begin(), exponents.end());
  double num = 0;
  double den = 0;
  for (int64_t s = 0; s <= t; ++s) {
    num += std::exp(exponents[s] - max) * wkv.v[s * wkv.dim + channel];
    den += std::exp(exponents[s] - max);
  }
  return num / den;
}

// The state that ChatRWKV keeps: aa, bb and pp, which begin at 0, 0 and -1e38.
Wkv64 ChatRwkv(const Wkv& wkv) {
  Wkv64 state{.o = {},
              .num = std::vector<double>(wkv.dim),
              .den = std::vector<double>(wkv.dim),
              .max = std::vector<double>(wkv.dim, -1e38)};
  for (int64_t t = 0; t < wkv.count; ++t) {
    for (int64_t c = 0; c < wkv.dim; ++c) {
      const double k = wkv.k[t * wkv.dim + c];
      const double v = wkv.v[t * wkv.dim + c];
      const double decayed = state.max[c] + wkv.log_decay[c];
      const double max = std::max(decayed, k);
      state.num[c] = std::exp(decayed - max) * state.num[c] + std::exp(k - max) * v;
      state.den[c] = std::exp(decayed - max) * state.den[c] + std::exp(k - max);
      state.max[c] = max;
    }
  }
  return state;
}

Wkv64 Oracle(const Wkv& wkv) {
  Wkv64 result = ChatRwkv(wkv);
  for (int64_t t = 0; t < wkv.count; ++t) {
    for (int64_t c = 0; c < wkv.dim; ++c) result.o.push_back(Weighted(wkv, t, c));
  }
  return result;
}

// A maximum of size m is rounded to m · 2^-24 by each token that it decays by, and e^max with it.
void ExpectMatches(const Wkv& wkv, const Wkv64& expected, double key_size = 1) {
  const double tolerance = 1e-5 * std::max(key_size, 1.0);
  ExpectClose(wkv.o, expected.o, tolerance);
  ExpectClose(wkv.num, expected.num, tolerance);
  ExpectClose(wkv.den, expected.den, tolerance);
  ExpectClose(wkv.max, expected.max, tolerance);
}

TEST(WkvTest, FormsMatchFloat64) {
  ForEachTarget([](std::string_view target) {
    SCOPED_TRACE(target);
    for (const int64_t count : {1, 2, 63, 65, 150}) {
      for (const int64_t dim : {1, 7, 16, 37}) {
        for (const float key_size : {0.5f, 5.0f}) {
          const Wkv problem = RandomWkv(count, dim, key_size);
          const Wkv64 expected = Oracle(problem);
          for (const Form form : kForms) {
            for (const int64_t position : {0, 5, 64}) {
              SCOPED_TRACE(testing::Message() << FormName(form) << ", " << count << " x " << dim
                                              << " at " << position << ", keys " << key_size);
              Wkv wkv = problem;
              Compute(wkv.Run(), position, form);
              ExpectMatches(wkv, expected, key_size);
            }
          }
        }
      }
    }
  });
}

TEST(WkvTest, PiecesInAnyFormMatchFloat64) {
  Wkv wkv = RandomWkv(150, 21, 1);
  const int64_t cuts[] = {0, 1, 20, 84, 85, 150};
  for (int piece = 0; piece < 5; ++piece) {
    Compute(wkv.Run(cuts[piece], cuts[piece + 1]), cuts[piece], kForms[piece % 3]);
  }
  ExpectMatches(wkv, Oracle(wkv));
}

TEST(WkvTest, TheFirstTokenIsTheState) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Wkv wkv = RandomWkv(1, 21, 1e4f);
    Compute(wkv.Run(), 0, form);
    EXPECT_EQ(wkv.o, wkv.v);
    EXPECT_EQ(wkv.num, wkv.v);
    EXPECT_EQ(wkv.den, std::vector<float>(21, 1.0f));
    EXPECT_EQ(wkv.max, wkv.k);
  }
}

TEST(WkvTest, AZeroDenominatorIsEmptyWhateverElseIsThere) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    const Wkv empty = RandomWkv(80, 21, 2);
    for (const float max : {-1e38f, 3e4f}) {
      Wkv zeroed = empty;
      Wkv other = empty;
      std::fill(other.max.begin(), other.max.end(), max);
      std::fill(other.num.begin(), other.num.end(), 5.0f);
      Compute(zeroed.Run(), 0, form);
      Compute(other.Run(), 0, form);
      EXPECT_EQ(other.o, zeroed.o);
      EXPECT_EQ(other.num, zeroed.num);
      EXPECT_EQ(other.max, zeroed.max);
    }
  }
}

TEST(WkvTest, RecurrentBitsDoNotDependOnCutsNorOnNeighbours) {
  const Wkv problem = RandomWkv(37, 21, 2);
  Wkv whole = problem;
  Compute(whole.Run(), 0, Form::kRecurrent);
  Wkv pieces = problem;
  for (const auto& [begin, end] : {std::pair(0, 1), {1, 2}, {2, 19}, {19, 37}}) {
    // Channels in two ranges, which cut a vector.
    for (const auto& [first, last] : {std::pair(0, 5), {5, 21}}) {
      WkvRun run = pieces.Run(begin, end);
      run.dim = last - first;
      for (const float** row : {&run.k, &run.v, &run.log_decay, &run.bonus}) *row += first;
      for (float** row : {&run.o, &run.num, &run.den, &run.max}) *row += first;
      Compute(run, begin, Form::kRecurrent);
    }
  }
  EXPECT_EQ(pieces.o, whole.o);
  EXPECT_EQ(pieces.num, whole.num);
  EXPECT_EQ(pieces.den, whole.den);
  EXPECT_EQ(pieces.max, whole.max);
}

TEST(WkvTest, ChunkwiseBitsDoNotDependOnCutsAtChunks) {
  const Wkv problem = RandomWkv(200, 21, 2);
  constexpr int64_t kPosition = 50;
  Wkv whole = problem;
  Compute(whole.Run(), kPosition, Form::kChunkwise);
  Wkv pieces = problem;
  for (const auto& [begin, end] : {std::pair(0, 14), {14, 142}, {142, 200}}) {
    Compute(pieces.Run(begin, end), kPosition + begin, Form::kChunkwise);
  }
  EXPECT_EQ(pieces.o, whole.o);
  EXPECT_EQ(pieces.num, whole.num);
  EXPECT_EQ(pieces.max, whole.max);
}

TEST(WkvTest, BitsAreThoseOfEveryTargetThatFuses) {
  for (const Form form : kForms) {
    std::vector<Wkv> results;
    ForEachTarget([&](std::string_view target) {
      if (!HasFusedMultiplyAdd(target)) return;
      results.push_back(RandomWkv(70, 21, 2));
      Compute(results.back().Run(), 0, form);
    });
    for (const Wkv& result : results) {
      EXPECT_EQ(result.o, results[0].o);
      EXPECT_EQ(result.num, results[0].num);
    }
  }
}

// An output is a mean of the values, whatever the keys: never outside them, never infinite.
void ExpectMeans(const Wkv& wkv, float lowest, float highest) {
  for (const std::vector<float>* row : {&wkv.num, &wkv.den, &wkv.max}) {
    for (const float x : *row) ASSERT_TRUE(std::isfinite(x));
  }
  for (const float o : wkv.o) {
    ASSERT_GE(o, lowest - 1e-5f);
    ASSERT_LE(o, highest + 1e-5f);
  }
}

TEST(WkvTest, HugeKeysAndDecaysStayFinite) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Wkv wkv = RandomWkv(150, 21, 1);
    for (float& k : wkv.k) k = std::copysign(1e4f, k);
    wkv.log_decay[0] = 0;
    wkv.log_decay[1] = -1e-30f;
    wkv.log_decay[2] = -1e30f;
    wkv.log_decay[3] = -std::numeric_limits<float>::infinity();
    Compute(wkv.Run(), 0, form);
    ExpectMeans(wkv, *std::min_element(wkv.v.begin(), wkv.v.end()),
                *std::max_element(wkv.v.begin(), wkv.v.end()));
    // What is forgotten at once leaves the last token and the token itself.
    for (const int64_t c : {2, 3}) {
      for (int64_t t = 1; t < wkv.count; ++t) {
        const float own = wkv.k[t * 21 + c] + wkv.bonus[c];
        const float last = wkv.k[(t - 1) * 21 + c];
        const float weight = 1 / (1 + std::exp(last - own));
        const float expected = weight * wkv.v[t * 21 + c] + (1 - weight) * wkv.v[(t - 1) * 21 + c];
        // A float's exponent near 1e4 is exact to 1e-3.
        ASSERT_NEAR(wkv.o[t * 21 + c], expected, 2e-3) << t;
      }
    }
  }
}

TEST(WkvTest, AMillionTokensStayFinite) {
  constexpr int64_t kPiece = 1000;
  Wkv wkv = RandomWkv(kPiece, 5, 1);
  for (float& k : wkv.k) k = std::copysign(1e4f, k);
  wkv.log_decay[0] = 0;
  for (int64_t piece = 0; piece < 1000; ++piece) {
    Compute(wkv.Run(), piece * kPiece, piece % 2 == 0 ? Form::kRecurrent : Form::kChunkwise);
  }
  ExpectMeans(wkv, *std::min_element(wkv.v.begin(), wkv.v.end()),
              *std::max_element(wkv.v.begin(), wkv.v.end()));
}

}  // namespace
}  // namespace fermata
