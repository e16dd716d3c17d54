#ifndef FERMATA_TESTS_ENGINE_KERNELS_RECURRENCE_TESTING_H_
#define FERMATA_TESTS_ENGINE_KERNELS_RECURRENCE_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/kernels/decay_rule.h"
#include "engine/kernels/delta_rule.h"
#include "engine/kernels/form.h"
#include "gtest/gtest.h"

namespace fermata {

inline constexpr Form kForms[] = {Form::kRecurrent, Form::kChunkwise, Form::kParallel};

// Every value within `tolerance` of the largest expected one.
template <typename Expected>
void ExpectClose(const std::vector<float>& actual, const Expected& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << "at " << i;
  }
}

// Calls body(scratch) with `floats` floats of NaN, and expects nothing beyond them to be written.
template <typename Body>
void WithGuardedScratch(int64_t floats, Body body) {
  constexpr int64_t kGuard = 64;
  std::vector<float> scratch(floats + kGuard, NAN);
  std::fill(scratch.begin() + floats, scratch.end(), 7.0f);
  body(scratch.data());
  for (int64_t i = floats; i < floats + kGuard; ++i) ASSERT_EQ(scratch[i], 7.0f) << i - floats;
}

// How the decays of a run are given.
enum class DecayKind { kNone, kConstant, kConstantPerChannel, kPerToken, kPerChannel };
inline constexpr DecayKind kDecayKinds[] = {DecayKind::kNone, DecayKind::kConstant,
                                            DecayKind::kConstantPerChannel, DecayKind::kPerToken,
                                            DecayKind::kPerChannel};

inline bool IsPerChannel(DecayKind kind) {
  return kind == DecayKind::kConstantPerChannel || kind == DecayKind::kPerChannel;
}
inline bool IsPerToken(DecayKind kind) {
  return kind == DecayKind::kPerToken || kind == DecayKind::kPerChannel;
}

// Inputs of the decay rule and the delta rule, rows one after another, and all that a form writes.
struct Recurrence {
  int64_t count = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  DecayKind kind = DecayKind::kNone;
  std::vector<float> q, k, v, decay;
  std::vector<float> a, b;     // Of the delta rule; b may be empty.
  std::vector<float> bonus;    // Of the decay rule; may be empty.
  std::vector<float> o, S, z;  // z may be empty.

  // The tokens [begin, end).
  DecayRun Decay(int64_t begin, int64_t end) {
    return Part<DecayRun>(begin, end, [this](auto& run) {
      run.bonus = bonus.empty() ? nullptr : bonus.data();
      run.z = z.empty() ? nullptr : z.data();
    });
  }
  DecayRun Decay() { return Decay(0, count); }

  DeltaRun Delta(int64_t begin, int64_t end) {
    return Part<DeltaRun>(begin, end, [this, begin](auto& run) {
      run.a = a.data() + begin * key_dim;
      run.a_stride = key_dim;
      run.b = b.empty() ? nullptr : b.data() + begin * key_dim;
      run.b_stride = key_dim;
    });
  }
  DeltaRun Delta() { return Delta(0, count); }

  int64_t decay_stride() const {
    return !IsPerToken(kind) ? 0 : kind == DecayKind::kPerChannel ? key_dim : 1;
  }
  // w of token t and channel i.
  double Decay64(int64_t t, int64_t i) const {
    if (decay.empty()) return 1;
    return decay[t * decay_stride() + (IsPerChannel(kind) ? i : 0)];
  }

 private:
  template <typename Run, typename Rest>
  Run Part(int64_t begin, int64_t end, Rest rest) {
    Run run{.count = end - begin, .key_dim = key_dim, .value_dim = value_dim};
    run.q = q.data() + begin * key_dim;
    run.q_stride = key_dim;
    run.k = k.data() + begin * key_dim;
    run.k_stride = key_dim;
    run.v = v.data() + begin * value_dim;
    run.v_stride = value_dim;
    run.o = o.data() + begin * value_dim;
    run.o_stride = value_dim;
    run.decay = decay.empty() ? nullptr : decay.data() + begin * decay_stride();
    run.decay_stride = decay_stride();
    run.decay_per_channel = IsPerChannel(kind);
    run.S = S.data();
    rest(run);
    return run;
  }
};

struct RecurrenceSize {
  int64_t count, key_dim, value_dim;
};

// Normals for all rows and for S; decays of every kind of size, among them 0, 1 and 1e-30. a and b
// are those of RWKV-7, so that nothing grows: a = -κ̂, b = η κ̂, |κ̂| = 1, η in [0, 1].
Recurrence RandomRecurrence(const RecurrenceSize& size, DecayKind kind);

// What a form must come to, in float64.
struct Recurrence64 {
  std::vector<double> o, S, z;
};

// The formulas of decay_rule.h and delta_rule.h as they stand there.
Recurrence64 DecayOracle(const Recurrence& r);
Recurrence64 DeltaOracle(const Recurrence& r);

// Odd sizes, with runs shorter and longer than blocks of 16 and chunks of 64.
std::vector<RecurrenceSize> RecurrenceSizes();

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_KERNELS_RECURRENCE_TESTING_H_
