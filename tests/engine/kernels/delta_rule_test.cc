#include "engine/kernels/delta_rule.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/kernels/recurrence_testing.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

// The delta rule without b: k = β k̂ and a = α k̂ with |k̂| = 1, β in [0, 2] and α the decay, where
// there is one a token.
Recurrence RandomDelta(const RecurrenceSize& size, DecayKind kind) {
  Recurrence r = RandomRecurrence(size, kind);
  r.b.clear();
  const std::vector<float> rates = RandomNormals(9, size.count);
  for (int64_t t = 0; t < r.count; ++t) {
    const float beta = 2 / (1 + std::exp(-rates[t]));
    for (int64_t i = 0; i < r.key_dim; ++i) {
      float& a = r.a[t * r.key_dim + i];
      r.k[t * r.key_dim + i] = beta * a;
      a *= static_cast<float>(r.Decay64(t, 0));
    }
  }
  return r;
}

// With decays per channel, b is the run's own: see RandomRecurrence.
Recurrence RandomProblem(const RecurrenceSize& size, DecayKind kind, bool own_b) {
  return own_b ? RandomRecurrence(size, kind) : RandomDelta(size, kind);
}

template <typename Body>
void ForEachProblem(const std::vector<RecurrenceSize>& sizes, Body body) {
  for (const RecurrenceSize& size : sizes) {
    for (const DecayKind kind : kDecayKinds) {
      for (const bool own_b : {false, true}) {
        // Nothing would keep such a state from growing.
        if (!own_b && IsPerChannel(kind)) continue;
        SCOPED_TRACE(testing::Message()
                     << size.count << " tokens, " << size.key_dim << " x " << size.value_dim
                     << ", decay " << static_cast<int>(kind) << ", own b " << own_b);
        body(RandomProblem(size, kind, own_b));
      }
    }
  }
}

void ExpectEqual(const Recurrence& a, const Recurrence& b) {
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.S, b.S);
}

TEST(DeltaRuleTest, FormsMatchFloat64) {
  ForEachTarget([](std::string_view target) {
    SCOPED_TRACE(target);
    ForEachProblem(RecurrenceSizes(), [](const Recurrence& problem) {
      const Recurrence64 expected = DeltaOracle(problem);
      for (const Form form : kForms) {
        for (const int64_t position : {0, 5, 64}) {
          SCOPED_TRACE(testing::Message() << FormName(form) << " at " << position);
          Recurrence r = problem;
          EXPECT_EQ(Compute(r.Delta(), position, form), 0);
          ExpectClose(r.o, expected.o, 5e-6);
          ExpectClose(r.S, expected.S, 5e-6);
        }
      }
    });
  });
}

// No published layer has them together, but the kernel takes them.
TEST(DeltaRuleTest, DecaysPerChannelWithoutOwnB) {
  Recurrence problem = RandomDelta({40, 12, 9}, DecayKind::kPerChannel);
  for (float& value : problem.k) value *= 0.5f;
  const Recurrence64 expected = DeltaOracle(problem);
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Recurrence r = problem;
    Compute(r.Delta(), 0, form);
    ExpectClose(r.o, expected.o, 5e-6);
    ExpectClose(r.S, expected.S, 5e-6);
  }
}

TEST(DeltaRuleTest, PiecesInAnyFormMatchFloat64) {
  ForEachProblem({{150, 20, 12}}, [](const Recurrence& problem) {
    const Recurrence64 expected = DeltaOracle(problem);
    Recurrence r = problem;
    const int64_t cuts[] = {0, 1, 20, 84, 85, 150};
    for (int piece = 0; piece < 5; ++piece) {
      Compute(r.Delta(cuts[piece], cuts[piece + 1]), 40 + cuts[piece], kForms[piece % 3]);
    }
    ExpectClose(r.o, expected.o, 5e-6);
    ExpectClose(r.S, expected.S, 5e-6);
  });
}

// Scratch memory need not be cleared, and is as large as the functions say.
TEST(DeltaRuleTest, ScratchSuffices) {
  ForEachProblem(RecurrenceSizes(), [](const Recurrence& problem) {
    for (const int64_t chunk : {1, 16, 20, 64}) {
      const Recurrence64 expected = DeltaOracle(problem);
      Recurrence r = problem;
      WithGuardedScratch(DeltaChunkScratch(r.Delta(), chunk),
                         [&](float* scratch) { DeltaChunkwise(r.Delta(), 3, chunk, scratch); });
      ExpectClose(r.o, expected.o, 5e-6);
      r = problem;
      WithGuardedScratch(DeltaParallelScratch(r.Delta()),
                         [&](float* scratch) { DeltaParallel(r.Delta(), scratch); });
      ExpectClose(r.o, expected.o, 5e-6);
    }
  });
}

TEST(DeltaRuleTest, RecurrentBitsDoNotDependOnCuts) {
  ForEachProblem({{37, 33, 7}, {37, 16, 24}}, [](const Recurrence& problem) {
    Recurrence whole = problem;
    Compute(whole.Delta(), 0, Form::kRecurrent);
    Recurrence pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 1), {1, 2}, {2, 19}, {19, 37}}) {
      Compute(pieces.Delta(begin, end), begin, Form::kRecurrent);
    }
    ExpectEqual(pieces, whole);
  });
}

TEST(DeltaRuleTest, ChunkwiseBitsDoNotDependOnCutsAtChunks) {
  ForEachProblem({{200, 33, 7}, {200, 16, 24}}, [](const Recurrence& problem) {
    constexpr int64_t kPosition = 50;
    Recurrence whole = problem;
    Compute(whole.Delta(), kPosition, Form::kChunkwise);
    Recurrence pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 14), {14, 142}, {142, 200}}) {
      Compute(pieces.Delta(begin, end), kPosition + begin, Form::kChunkwise);
    }
    ExpectEqual(pieces, whole);
  });
}

// The width of a vector must not show. Without a fused multiply-add, other bits are right.
TEST(DeltaRuleTest, BitsAreThoseOfEveryTargetThatFuses) {
  ForEachProblem({{21, 33, 7}, {21, 17, 67}}, [](const Recurrence& problem) {
    for (const Form form : kForms) {
      std::vector<Recurrence> results;
      ForEachTarget([&](std::string_view target) {
        if (!HasFusedMultiplyAdd(target)) return;
        results.push_back(problem);
        Compute(results.back().Delta(), 0, form);
      });
      for (const Recurrence& result : results) ExpectEqual(result, results[0]);
    }
  });
}

TEST(DeltaRuleTest, WithoutReadingItIsTheDecayRule) {
  for (const DecayKind kind : kDecayKinds) {
    for (const Form form : kForms) {
      SCOPED_TRACE(testing::Message() << FormName(form) << ", decay " << static_cast<int>(kind));
      Recurrence delta = RandomRecurrence({100, 20, 12}, kind);
      std::fill(delta.a.begin(), delta.a.end(), 0.0f);
      std::fill(delta.b.begin(), delta.b.end(), 0.0f);
      Recurrence decay = delta;
      Compute(delta.Delta(), 0, form);
      Compute(decay.Decay(), 0, form);
      ExpectClose(delta.o, decay.o, 1e-6);
      ExpectClose(delta.S, decay.S, 1e-6);
    }
  }
}

TEST(DeltaRuleTest, WithBetaZeroTheStateStays) {
  for (const Form form : kForms) {
    Recurrence r = RandomDelta({100, 20, 12}, DecayKind::kNone);
    std::fill(r.k.begin(), r.k.end(), 0.0f);
    const std::vector<float> S = r.S;
    Compute(r.Delta(), 0, form);
    EXPECT_EQ(r.S, S);
  }
}

// β = 1 stores v under k̂ whatever was there.
TEST(DeltaRuleTest, WithBetaOneTheValueIsReadBack) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Recurrence r = RandomDelta({100, 20, 12}, DecayKind::kNone);
    r.k = r.a;
    r.q = r.a;
    Compute(r.Delta(), 0, form);
    ExpectClose(r.o, r.v, 5e-6);
  }
}

TEST(DeltaRuleTest, AGateOfOneIsNoGate) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Recurrence plain = RandomDelta({100, 20, 12}, DecayKind::kNone);
    Recurrence gated = plain;
    gated.kind = DecayKind::kPerToken;
    gated.decay.assign(plain.count, 1.0f);
    Compute(plain.Delta(), 0, form);
    Compute(gated.Delta(), 0, form);
    ExpectEqual(gated, plain);
  }
}

TEST(DeltaRuleTest, OwnBThatIsMinusKIsTheDeltaRule) {
  for (const DecayKind kind : {DecayKind::kNone, DecayKind::kPerToken}) {
    for (const Form form : kForms) {
      SCOPED_TRACE(FormName(form));
      Recurrence without = RandomDelta({100, 20, 12}, kind);
      Recurrence with = without;
      for (const float k : with.k) with.b.push_back(-k);
      Compute(without.Delta(), 0, form);
      Compute(with.Delta(), 0, form);
      ExpectClose(with.o, without.o, 5e-6);
      ExpectClose(with.S, without.S, 5e-6);
    }
  }
}

// A decay of 0 leaves what the token itself stores: k (v - u)ᵀ, or b uᵀ + k vᵀ.
TEST(DeltaRuleTest, ZeroForgetsAllButWhatTheTokenRead) {
  for (const Form form : kForms) {
    SCOPED_TRACE(FormName(form));
    Recurrence r = RandomRecurrence({90, 20, 12}, DecayKind::kPerChannel);
    constexpr int64_t kReset = 70;
    for (int64_t i = 0; i < r.key_dim; ++i) {
      r.decay[kReset * r.key_dim + i] = 0;
      r.a[kReset * r.key_dim + i] = 0;
    }
    Recurrence fresh = r;
    std::fill(fresh.S.begin(), fresh.S.end(), 0.0f);
    std::fill(fresh.k.begin(), fresh.k.begin() + kReset * r.key_dim, 0.0f);
    Compute(r.Delta(), 0, form);
    Compute(fresh.Delta(), 0, form);
    EXPECT_EQ(r.S, fresh.S);
  }
}

TEST(DeltaRuleTest, ErrorsStaySmallOverAHundredThousandTokens) {
  for (const bool own_b : {false, true}) {
    SCOPED_TRACE(own_b);
    Recurrence r = RandomProblem({100000, 6, 5}, DecayKind::kNone, own_b);
    const Recurrence64 expected = DeltaOracle(r);
    Compute(r.Delta(), 0, Form::kRecurrent);
    ExpectClose(r.o, expected.o, 1e-5);
    ExpectClose(r.S, expected.S, 1e-5);
  }
}

}  // namespace
}  // namespace fermata
