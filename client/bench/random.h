#ifndef FERMATA_CLIENT_BENCH_RANDOM_H_
#define FERMATA_CLIENT_BENCH_RANDOM_H_

#include <cstdint>

namespace fermata::bench {

// A stream of random numbers (SplitMix64: Steele, Lea and Flood, OOPSLA 2014), the same for the same
// seed on every machine, unlike the standard library's distributions.
class Random {
 public:
  // Of streams by different numbers, each is its own.
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(Mix(seed) ^ Mix(~stream)) {}

  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  // In [0, count).
  int64_t Below(int64_t count) {
    return static_cast<int64_t>((static_cast<unsigned __int128>(Next()) * count) >> 64);
  }

 private:
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_RANDOM_H_
