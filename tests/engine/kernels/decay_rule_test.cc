#include "engine/kernels/decay_rule.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kernels/elementwise.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/engine/kernels/targets.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

constexpr Form kForms[] = {Form::kRecurrent, Form::kChunkwise, Form::kParallel};

// Inputs, and all that a form writes.
struct Problem {
  int64_t count, features, values;
  float decay;
  bool normalise;
  std::vector<float> q, k, v, o, S, z;

  DecayRun Run(int64_t begin, int64_t end) {
    return {.count = end - begin,
            .key_dim = features,
            .value_dim = values,
            .q = q.data() + begin * features,
            .q_stride = features,
            .k = k.data() + begin * features,
            .k_stride = features,
            .v = v.data() + begin * values,
            .v_stride = values,
            .o = o.data() + begin * values,
            .o_stride = values,
            .decay = &decay,
            .S = S.data(),
            .z = normalise ? z.data() : nullptr};
  }
};

// Features are positive under a normaliser, so that nothing cancels and errors stay small.
Problem RandomProblem(int64_t count, int64_t features, int64_t values, float decay,
                      bool normalise) {
  Problem p{.count = count,
            .features = features,
            .values = values,
            .decay = decay,
            .normalise = normalise,
            .q = RandomNormals(1, count * features),
            .k = RandomNormals(2, count * features),
            .v = RandomNormals(3, count * values),
            .o = std::vector<float>(count * values, NAN),
            .S = RandomNormals(4, features * values),
            .z = RandomNormals(5, features)};
  if (normalise) {
    for (std::vector<float>* x : {&p.q, &p.k, &p.z}) {
      for (float& value : *x) value = std::abs(value);
    }
  }
  return p;
}

struct Result {
  std::vector<double> o, S, z;
};

// The formula, as it stands, in float64.
Result Oracle(const Problem& p) {
  Result r{.o = {}, .S = {p.S.begin(), p.S.end()}, .z = {p.z.begin(), p.z.end()}};
  for (int64_t t = 0; t < p.count; ++t) {
    for (int64_t i = 0; i < p.features; ++i) {
      const double k = p.k[t * p.features + i];
      r.z[i] = p.decay * r.z[i] + k;
      for (int64_t j = 0; j < p.values; ++j) {
        double& s = r.S[i * p.values + j];
        s = p.decay * s + k * p.v[t * p.values + j];
      }
    }
    double denominator = p.normalise ? 1e-10 : 1;
    for (int64_t i = 0; p.normalise && i < p.features; ++i) {
      denominator += p.q[t * p.features + i] * r.z[i];
    }
    for (int64_t j = 0; j < p.values; ++j) {
      double numerator = 0;
      for (int64_t i = 0; i < p.features; ++i) {
        numerator += p.q[t * p.features + i] * r.S[i * p.values + j];
      }
      r.o.push_back(numerator / denominator);
    }
  }
  return r;
}

template <typename Expected>
void ExpectClose(const std::vector<float>& actual, const Expected& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << "at " << i;
  }
}

struct Size {
  int64_t features, values;
};
constexpr Size kSizes[] = {{1, 1}, {3, 5}, {16, 24}, {33, 7}, {64, 32}, {17, 67}};

template <typename Body>
void ForEachProblem(std::initializer_list<int64_t> counts, Body body) {
  for (const Size& size : kSizes) {
    for (const int64_t count : counts) {
      for (const float decay : {1.0f, 0.9f, 0.25f}) {
        for (const bool normalise : {false, true}) {
          SCOPED_TRACE(testing::Message() << size.features << " x " << size.values << ", " << count
                                          << " tokens, decay " << decay << ", z " << normalise);
          body(RandomProblem(count, size.features, size.values, decay, normalise));
        }
      }
    }
  }
}

TEST(LinearAttentionTest, FormsMatchFloat64) {
  ForEachTarget([](std::string_view target) {
    SCOPED_TRACE(target);
    ForEachProblem({1, 2, 63, 130}, [](const Problem& problem) {
      const Result expected = Oracle(problem);
      for (const Form form : kForms) {
        for (const int64_t position : {0, 5, 64}) {
          SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form));
          Problem p = problem;
          EXPECT_EQ(Compute(p.Run(0, p.count), position, form), 0);
          ExpectClose(p.o, expected.o, 5e-6);
          ExpectClose(p.S, expected.S, 5e-6);
          if (p.normalise) ExpectClose(p.z, expected.z, 5e-6);
        }
      }
    });
  });
}

TEST(LinearAttentionTest, RecurrentBitsDoNotDependOnCuts) {
  ForEachProblem({37}, [](const Problem& problem) {
    Problem whole = problem;
    Compute(whole.Run(0, whole.count), 0, Form::kRecurrent);
    Problem pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 1), {1, 2}, {2, 19}, {19, 37}}) {
      Compute(pieces.Run(begin, end, Form::kRecurrent), begin);
    }
    EXPECT_EQ(pieces.o, whole.o);
    EXPECT_EQ(pieces.S, whole.S);
    EXPECT_EQ(pieces.z, whole.z);
  });
}

TEST(LinearAttentionTest, ChunkwiseBitsDoNotDependOnCutsAtChunks) {
  ForEachProblem({200}, [](const Problem& problem) {
    constexpr int64_t kPosition = 50;
    Problem whole = problem;
    Compute(whole.Run(0, whole.count), kPosition, Form::kChunkwise);
    Problem pieces = problem;
    for (const auto& [begin, end] : {std::pair(0, 14), {14, 142}, {142, 200}}) {
      Compute(pieces.Run(begin, end, Form::kChunkwise), kPosition + begin);
    }
    EXPECT_EQ(pieces.o, whole.o);
    EXPECT_EQ(pieces.S, whole.S);
  });
}

// The width of a vector must not show. Without a fused multiply-add, other bits are right.
TEST(LinearAttentionTest, BitsAreThoseOfEveryTargetThatFuses) {
  ForEachProblem({9}, [](const Problem& problem) {
    std::vector<Problem> results;
    ForEachTarget([&](std::string_view target) {
      if (!HasFusedMultiplyAdd(target)) return;
      results.push_back(problem);
      Compute(results.back().Run(0, problem.count), 0, Form::kRecurrent);
    });
    for (const Problem& result : results) {
      EXPECT_EQ(result.o, results[0].o);
      EXPECT_EQ(result.S, results[0].S);
    }
  });
}

TEST(LinearAttentionTest, DenominatorRule) {
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

TEST(LinearAttentionTest, CancellationIsClampedAndCountedInEveryForm) {
  for (const Form form : kForms) {
    // The first and third token's q is orthogonal to z, the second's is not.
    Problem p{.count = 3,
              .features = 2,
              .values = 1,
              .decay = 1,
              .normalise = true,
              .q = {1, 1, 1, 0, 2, 2},
              .k = {1, -1, 1, -1, 1, -1},
              .v = {1, 1, 1},
              .o = std::vector<float>(3),
              .S = {0, 0},
              .z = {0, 0}};
    EXPECT_EQ(Compute(p.Run(0, 3, form), 0), 2);
    EXPECT_EQ(p.o, std::vector<float>({0, 1, 0}));
  }
}

// Vectors of the published operators, [1, tokens, heads, dim], every head in every form.
class OperatorTest : public testing::Test {
 protected:
  struct Options {
    std::string file;
    std::string q = "q";
    std::string k = "k";
    std::string S = "";  // Names of the states after the run; empty: not there.
    std::string z = "";
    bool elu = false;        // q and k have not been through elu + 1.
    bool scale = false;      // q has not been divided by √dim.
    bool retention = false;  // Decays of RetNet.
    double eps = 0;          // What the reference adds to the denominator.
  };

  static void Check(const Options& options) {
    auto tensors = ReadSafetensors(*ConformanceDir() / "ops" / (options.file + ".safetensors"));
    TestTensor& q = tensors.at(options.q);
    TestTensor& k = tensors.at(options.k);
    if (options.elu) {
      for (TestTensor* x : {&q, &k}) {
        EluPlusOne(x->values.data(), x->values.data(), static_cast<int64_t>(x->values.size()));
      }
    }
    if (options.scale) {
      Scale(1 / std::sqrt(static_cast<float>(q.shape[3])), q.values.data(),
            static_cast<int64_t>(q.values.size()));
    }
    for (int64_t head = 0; head < q.shape[2]; ++head) {
      for (const Form form : kForms) {
        SCOPED_TRACE(testing::Message()
                     << options.file << ", head " << head << ", form " << static_cast<int>(form));
        CheckHead(options, tensors, head, form);
      }
    }
  }

 private:
  // Rows of one head of x [1, rows, heads, dim] (or, for a state, [1, heads, …] with rows = 1).
  static std::vector<float> Head(const TestTensor& x, int64_t rows, int64_t heads, int64_t head) {
    const int64_t dim = static_cast<int64_t>(x.values.size()) / rows / heads;
    std::vector<float> result;
    for (int64_t row = 0; row < rows; ++row) {
      const float* begin = x.values.data() + (row * heads + head) * dim;
      result.insert(result.end(), begin, begin + dim);
    }
    return result;
  }

  static void CheckHead(const Options& options, const std::map<std::string, TestTensor>& tensors,
                        int64_t head, Form form) {
    const TestTensor& q = tensors.at(options.q);
    const int64_t count = q.shape[1];
    const int64_t heads = q.shape[2];
    Problem p{.count = count,
              .features = q.shape[3],
              .values = tensors.at("v").shape[3],
              .decay = options.retention ? 1 - std::ldexp(1.0f, -5 - static_cast<int>(head)) : 1,
              .normalise = options.eps != 0,
              .q = Head(q, count, heads, head),
              .k = Head(tensors.at(options.k), count, heads, head),
              .v = Head(tensors.at("v"), count, heads, head),
              .o = std::vector<float>(count * tensors.at("v").shape[3]),
              .S = std::vector<float>(q.shape[3] * tensors.at("v").shape[3]),
              .z = std::vector<float>(q.shape[3])};
    if (const auto it = tensors.find("initial_state"); it != tensors.end()) {
      p.S = Head(it->second, 1, heads, head);
    }
    std::vector<float> expected = Head(tensors.at("out"), count, heads, head);
    if (options.eps > 1e-10) SwapEpsilon(p, options.eps, expected);
    EXPECT_EQ(Compute(p.Run(0, count, form), 0), 0);
    ExpectClose(p.o, expected, 1e-5);
    if (!options.S.empty()) ExpectClose(p.S, Head(tensors.at(options.S), 1, heads, head), 1e-5);
    if (!options.z.empty()) ExpectClose(p.z, Head(tensors.at(options.z), 1, heads, head), 1e-5);
  }

  // Turns out = num / (den + eps) into num / (den + 1e-10).
  static void SwapEpsilon(const Problem& p, double eps, std::vector<float>& out) {
    std::vector<double> z(p.features);
    for (int64_t t = 0; t < p.count; ++t) {
      double denominator = 0;
      for (int64_t i = 0; i < p.features; ++i) {
        z[i] += p.k[t * p.features + i];
        denominator += p.q[t * p.features + i] * z[i];
      }
      for (int64_t j = 0; j < p.values; ++j) {
        float& value = out[t * p.values + j];
        value = static_cast<float>(value * (denominator + eps) / (denominator + 1e-10));
      }
    }
  }
};

TEST_F(OperatorTest, FlashLinearAttention) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  Check({.file = "fla_linear_attn", .S = "final_state", .scale = true});
  Check({.file = "fla_linear_attn_normalized",
         .S = "final_state",
         .z = "final_z",
         .scale = true,
         .eps = 1e-10});
  Check({.file = "fla_retention", .S = "final_state", .scale = true, .retention = true});
}

TEST_F(OperatorTest, FastTransformers) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  Check({.file = "fast_transformers_causal_linear_elu1",
         .S = "state_S",
         .z = "state_Z",
         .elu = true,
         .eps = 1e-6});
  for (const char* file :
       {"fast_transformers_causal_linear_favor", "fast_transformers_causal_linear_favor_temp1",
        "fast_transformers_causal_linear_generalized_relu"}) {
    Check({.file = file, .q = "phi_q", .k = "phi_k", .S = "state_S", .z = "state_Z", .eps = 1e-6});
  }
}

TEST_F(OperatorTest, SlimPerformer) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  Check({.file = "slim_performer_favorplus", .q = "phi_q", .k = "phi_k", .eps = 1e-16});
}

}  // namespace
}  // namespace fermata
