#include "engine/kernels/decay_rule.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/kernels/recurrence_testing.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

enum class Extra { kNothing, kNormaliser, kBonus };

// Features are positive under a normaliser, so that nothing cancels and errors stay small.
Recurrence RandomDecay(const RecurrenceSize& size, DecayKind kind, Extra extra) {
  Recurrence r = RandomRecurrence(size, kind);
  if (extra == Extra::kBonus) r.bonus = RandomNormals(7, size.key_dim);
  if (extra != Extra::kNormaliser) return r;
  r.z = RandomNormals(8, size.key_dim);
  for (std::vector<float>* x : {&r.q, &r.k, &r.z}) {
    for (float& value : *x) value = std::abs(value);
  }
  return r;
}

template <typename Body>
void ForEachProblem(const std::vector<RecurrenceSize>& sizes, Body body) {
  for (const RecurrenceSize& size : sizes) {
    for (const DecayKind kind : kDecayKinds) {
      for (const Extra extra : {Extra::kNothing, Extra::kNormaliser, Extra::kBonus}) {
        SCOPED_TRACE(testing::Message() << size.count << " tokens, " << size.key_dim << " x "
                                        << size.value_dim << ", decay " << static_cast<int>(kind)
                                        << ", extra " << static_cast<int>(extra));
        body(RandomDecay(size, kind, extra));
      }
    }
  }
}

void ExpectEqual(const Recurrence& a, const Recurrence& b) {
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.S, b.S);
  EXPECT_EQ(a.z, b.z);
}

TEST(DecayRuleTest, FormsMatchFloat64) {
  ForEachTarget([](std::string_view target) {
    SCOPED_TRACE(target);
    ForEachProblem(RecurrenceSizes(), [](const Recurrence& problem) {
      const Recurrence64 expected = DecayOracle(problem);
      for (const Form form : kForms) {
        for (const int64_t position : {0, 5, 64}) {
          SCOPED_TRACE(testing::Message() << FormName(form) << " at " << position);
          Recurrence r = problem;
          EXPECT_EQ(Compute(r.Decay(), position, form), 0);
          ExpectClose(r.o, expected.o, 5e-6);
          ExpectClose(r.S, expected.S, 5e-6);
          ExpectClose(r.z, expected.z, 5e-6);
        }
      }
    });
  });
}

TEST(DecayRuleTest, PiecesInAnyFormMatchFloat64) {
  ForEachProblem({{150, 20, 12}}, [](const Recurrence& problem) {
    const Recurrence64 expected = DecayOracle(problem);
    Recurrence r = problem;
    const int64_t cuts[] = {0, 1, 20, 84, 85, 150};
    for (int piece = 0; piece < 5; ++piece) {
      Compute(r.Decay(cuts[piece], cuts[piece + 1]), 40 + cuts[piece], kForms[piece % 3]);
    }
    ExpectClose(r.o, expected.o, 5e-6);
    ExpectClose(r.S, expected.S, 5e-6);
    ExpectClose(r.z, expected.z, 5e-6);
  });
}

// Scratch memory need not be cleared, and is as large as the functions say.
TEST(DecayRuleTest, ScratchSuffices) {
  ForEachProblem(RecurrenceSizes(), [](const Recurrence& problem) {
    for (const int64_t chunk : {1, 16, 20, 64}) {
      const Recurrence64 expected = DecayOracle(problem);
      Recurrence r = problem;
      WithGuardedScratch(DecayChunkScratch(r.Decay(), chunk),
                         [&](float* scratch) { DecayChunkwise(r.Decay(), 3, chunk, scratch); });
      ExpectClose(r.o, expected.o, 5e-6);
      r = problem;
      WithGuardedScratch(DecayParallelScratch(r.Decay()),
                         [&](float* scratch) { DecayParallel(r.Decay(), scratch); });
      ExpectClose(r.o, expected.o, 5e-6);
    }
  });
}

TEST(DecayRuleTest, RecurrentBitsDoNotDependOnCuts) {
  ForEachProblem({{37, 33, 7}, {37, 16, 24}}, [](const Recurrence& problem) {
    Recurrence whole = problem;
    Compute(whole.Decay(), 0, Form::kRecurrent);
    Recurrence pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 1), {1, 2}, {2, 19}, {19, 37}}) {
      Compute(pieces.Decay(begin, end), begin, Form::kRecurrent);
    }
    ExpectEqual(pieces, whole);
  });
}

TEST(DecayRuleTest, ChunkwiseBitsDoNotDependOnCutsAtChunks) {
  ForEachProblem({{200, 33, 7}, {200, 16, 24}}, [](const Recurrence& problem) {
    constexpr int64_t kPosition = 50;
    Recurrence whole = problem;
    Compute(whole.Decay(), kPosition, Form::kChunkwise);
    Recurrence pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 14), {14, 142}, {142, 200}}) {
      Compute(pieces.Decay(begin, end), kPosition + begin, Form::kChunkwise);
    }
    ExpectEqual(pieces, whole);
  });
}

// The width of a vector must not show. Without a fused multiply-add, other bits are right.
TEST(DecayRuleTest, BitsAreThoseOfEveryTargetThatFuses) {
  ForEachProblem({{21, 33, 7}, {21, 17, 67}}, [](const Recurrence& problem) {
    for (const Form form : kForms) {
      std::vector<Recurrence> results;
      ForEachTarget([&](std::string_view target) {
        if (!HasFusedMultiplyAdd(target)) return;
        results.push_back(problem);
        Compute(results.back().Decay(), 0, form);
      });
      for (const Recurrence& result : results) ExpectEqual(result, results[0]);
    }
  });
}

TEST(DecayRuleTest, RowsMayLieApart) {
  ForEachProblem({{70, 9, 6}}, [](const Recurrence& problem) {
    for (const Form form : kForms) {
      Recurrence dense = problem;
      Compute(dense.Decay(), 0, form);
      // q, k, v and o of a token side by side.
      const int64_t stride = 2 * problem.key_dim + 2 * problem.value_dim;
      std::vector<float> rows(problem.count * stride);
      Recurrence apart = problem;
      DecayRun run = apart.Decay();
      for (int64_t t = 0; t < run.count; ++t) {
        float* row = rows.data() + t * stride;
        std::copy_n(run.q + t * run.q_stride, run.key_dim, row);
        std::copy_n(run.k + t * run.k_stride, run.key_dim, row + run.key_dim);
        std::copy_n(run.v + t * run.v_stride, run.value_dim, row + 2 * run.key_dim);
      }
      run.q = rows.data();
      run.k = run.q + run.key_dim;
      run.v = run.k + run.key_dim;
      run.o = rows.data() + 2 * run.key_dim + run.value_dim;
      run.q_stride = run.k_stride = run.v_stride = run.o_stride = stride;
      Compute(run, 0, form);
      for (int64_t t = 0; t < run.count; ++t) {
        std::copy_n(run.o + t * stride, run.value_dim, apart.o.begin() + t * run.value_dim);
      }
      ExpectEqual(apart, dense);
    }
  });
}

// Changes how decays are given, not what they are, and expects the same results to rounding.
void ExpectSameDecays(DecayKind from, DecayKind to) {
  const Recurrence problem = RandomRecurrence({100, 20, 12}, from);
  Recurrence other = problem;
  other.kind = to;
  other.decay.clear();
  for (int64_t t = 0; t < (IsPerToken(to) ? problem.count : 1); ++t) {
    for (int64_t i = 0; i < (IsPerChannel(to) ? problem.key_dim : 1); ++i) {
      other.decay.push_back(static_cast<float>(problem.Decay64(t, i)));
    }
  }
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Recurrence a = problem;
    Recurrence b = other;
    Compute(a.Decay(), 0, form);
    Compute(b.Decay(), 0, form);
    ExpectClose(b.o, a.o, 2e-6);
    ExpectClose(b.S, a.S, 2e-6);
    // Token after token the arithmetic is the same.
    if (form == Form::kRecurrent) ExpectEqual(a, b);
  }
}

TEST(DecayRuleTest, EqualDecaysAreEqualHoweverTheyAreGiven) {
  ExpectSameDecays(DecayKind::kPerToken, DecayKind::kPerChannel);
  ExpectSameDecays(DecayKind::kConstant, DecayKind::kPerToken);
  ExpectSameDecays(DecayKind::kConstant, DecayKind::kConstantPerChannel);
  ExpectSameDecays(DecayKind::kConstantPerChannel, DecayKind::kPerChannel);
}

TEST(DecayRuleTest, RetentionThatForgetsNothingIsLinearAttentionToTheBit) {
  for (const Extra extra : {Extra::kNothing, Extra::kNormaliser, Extra::kBonus}) {
    const Recurrence sum = RandomDecay({100, 20, 12}, DecayKind::kNone, extra);
    Recurrence retention = sum;
    retention.kind = DecayKind::kConstant;
    retention.decay = {1.0f};
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      Recurrence a = sum;
      Recurrence b = retention;
      Compute(a.Decay(), 0, form);
      Compute(b.Decay(), 0, form);
      ExpectEqual(a, b);
    }
  }
}

// A decay of 0 is a fresh start: what was there, however large, leaves no trace.
TEST(DecayRuleTest, ZeroForgetsEverything) {
  for (const DecayKind kind : {DecayKind::kPerToken, DecayKind::kPerChannel}) {
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      Recurrence r = RandomRecurrence({90, 20, 12}, kind);
      constexpr int64_t kReset = 70;
      const int64_t stride = r.decay_stride();
      std::fill_n(r.decay.begin() + kReset * stride, stride, 0.0f);
      Recurrence fresh = r;
      for (int64_t i = 0; i < kReset * r.key_dim; ++i) r.k[i] *= 1e15f;
      std::fill(fresh.S.begin(), fresh.S.end(), 0.0f);
      std::fill(fresh.k.begin(), fresh.k.begin() + kReset * r.key_dim, 0.0f);
      Compute(r.Decay(), 0, form);
      Compute(fresh.Decay(), 0, form);
      EXPECT_EQ(r.S, fresh.S);
      for (int64_t i = kReset * r.value_dim; i < r.count * r.value_dim; ++i) {
        ASSERT_EQ(r.o[i], fresh.o[i]) << i;
      }
    }
  }
}

TEST(DecayRuleTest, ErrorsStaySmallOverAHundredThousandTokens) {
  for (const float decay : {1.0f, 0.99999f, 0.999f}) {
    SCOPED_TRACE(decay);
    Recurrence r = RandomRecurrence({100000, 6, 5}, DecayKind::kConstant);
    r.decay = {decay};
    const Recurrence64 expected = DecayOracle(r);
    Compute(r.Decay(), 0, Form::kRecurrent);
    // Roundings of 2^-24 that add up as a random walk does: √100000 · 2^-24.
    ExpectClose(r.o, expected.o, 1.9e-5);
    ExpectClose(r.S, expected.S, 1.9e-5);
  }
}

TEST(DecayRuleTest, DenominatorRule) {
  EXPECT_FALSE(ClampDenominator(2, 2).clamped);
  EXPECT_EQ(ClampDenominator(2, 2).value, 2);
  EXPECT_EQ(ClampDenominator(0, 0).value, 1e-10f);
  EXPECT_FALSE(ClampDenominator(0, 0).clamped);
  // Digits are left: the value stands, whatever its sign.
  EXPECT_FALSE(ClampDenominator(-2e-6f, 1).clamped);
  EXPECT_FLOAT_EQ(ClampDenominator(-2e-6f, 1).value, -2e-6f + 1e-10f);
  // None are left: the floor, with the sign of what was there.
  EXPECT_TRUE(ClampDenominator(-3e-7f, 1).clamped);
  EXPECT_FLOAT_EQ(ClampDenominator(-3e-7f, 1).value, -1e-6f);
  EXPECT_FLOAT_EQ(ClampDenominator(3e-7f, 8).value, 8e-6f);
  // q and z that are not negative keep sum and magnitude equal.
  for (float sum = 1e-30f; sum < 1e30f; sum *= 7) {
    EXPECT_FALSE(ClampDenominator(sum, sum).clamped) << sum;
  }
}

TEST(DecayRuleTest, CancellationIsClampedAndCountedInEveryForm) {
  for (const Form form : kForms) {
    // The first and third token's q is orthogonal to z, the second's is not.
    Recurrence r{.count = 3,
                 .key_dim = 2,
                 .value_dim = 1,
                 .q = {1, 1, 1, 0, 2, 2},
                 .k = {1, -1, 1, -1, 1, -1},
                 .v = {1, 1, 1},
                 .o = std::vector<float>(3),
                 .S = {0, 0},
                 .z = {0, 0}};
    EXPECT_EQ(Compute(r.Decay(), 0, form), 2);
    EXPECT_EQ(r.o, std::vector<float>({0, 1, 0}));
  }
}

}  // namespace
}  // namespace fermata
