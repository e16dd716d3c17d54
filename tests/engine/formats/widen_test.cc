#include "engine/formats/widen.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/parallel.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

// The value that IEEE 754's rule gives to sign, exponent and fraction; nullopt for NaN and
// infinity.
std::optional<double> ValueOf(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1) return std::nullopt;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const double scale = std::ldexp(1.0, std::max(exponent, 1) - bias - fraction_bits);
  const int implicit = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * scale * (implicit + fraction);
}

void ExpectEveryPatternExact(std::string_view dtype, int exponent_bits) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    float value = 0;
    const int64_t bad = Widen(dtype, std::as_bytes(std::span(&bits, 1)), {&value, 1});
    const std::optional<double> expected = ValueOf(bits, exponent_bits);
    ASSERT_EQ(bad, expected.has_value() ? -1 : 0) << pattern;
    if (!expected.has_value()) continue;
    ASSERT_EQ(static_cast<double>(value), *expected) << pattern;
    ASSERT_EQ(std::signbit(value), std::signbit(*expected)) << pattern;
  }
}

TEST(WidenTest, EveryF16IsExact) { ExpectEveryPatternExact("F16", 5); }
TEST(WidenTest, EveryBf16IsExact) { ExpectEveryPatternExact("BF16", 8); }

TEST(WidenTest, F32KeepsItsBits) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, -3e38f,
                                     std::numeric_limits<float>::denorm_min()};
  std::vector<float> out(values.size());
  EXPECT_EQ(Widen("F32", std::as_bytes(std::span(values)), out), -1);
  EXPECT_EQ(std::memcmp(out.data(), values.data(), sizeof(float) * out.size()), 0);
}

TEST(WidenTest, NamesTheFirstValueThatIsNotFinite) {
  for (const size_t at : {0, 1, 1023, 1024, 1025, 2999}) {
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      std::vector<float> values(3000, 1.0f);
      values[at] = bad;
      values.back() = NAN;
      std::vector<float> out(values.size());
      EXPECT_EQ(Widen("F32", std::as_bytes(std::span(values)), out), static_cast<int64_t>(at));
    }
  }
}

TEST(WidenTest, ReadsAtAnyAlignment) {
  std::vector<float> values(2500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 7.25f;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::vector<std::byte> bytes(shift + values.size() * sizeof(float));
    std::memcpy(bytes.data() + shift, values.data(), values.size() * sizeof(float));
    std::vector<float> out(values.size());
    EXPECT_EQ(Widen("F32", std::span(bytes).subspan(shift), out), -1);
    EXPECT_EQ(out, values);
  }
}

TEST(WidenTest, ThreadsChangeNothing) {
  std::vector<float> values(50'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const int threads : {2, 3, 7}) {
    SetComputeThreads(threads, 1);
    std::vector<float> out(values.size());
    EXPECT_EQ(Widen("F32", std::as_bytes(std::span(values)), out), -1);
    EXPECT_EQ(out, values);
    std::vector<float> bad = values;
    for (const size_t at : {49'999, 30'000, 29'999, 12'345}) {
      bad[at] = NAN;
      EXPECT_EQ(Widen("F32", std::as_bytes(std::span(bad)), out), static_cast<int64_t>(at));
    }
  }
  SetComputeThreads(1);
}

TEST(WidenTest, KnowsWhatItCanRead) {
  for (const char* type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_TRUE(CanWiden(type)) << type;
    EXPECT_NE(kReadableTypes.find(type), std::string_view::npos) << type;
  }
  for (const char* type : {"F64", "I32", "", "f32", "Q4_1", "Q5_0", "Q2_K", "IQ4_XS", "q4_k"}) {
    EXPECT_FALSE(CanWiden(type)) << type;
  }
}

}  // namespace
}  // namespace fermata
