#include "engine/base/philox.h"

#include <cmath>
#include <numbers>

namespace fermata {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// The top 53 bits of (high, low) as a double in [0, 1).
double ToUniform(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32) | low;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> x = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * x[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

double PhiloxUniform(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const auto words = Philox(key, counter_low, counter_high);
  return ToUniform(words[0], words[1]);
}

double PhiloxNormal(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const auto words = Philox(key, counter_low, counter_high);
  const double radius = std::sqrt(-2.0 * std::log1p(-ToUniform(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * ToUniform(words[2], words[3]));
}

}  // namespace fermata
