#include "server/observe/buckets.h"

namespace fermata {

// Never destroyed: histograms keep copies, but are made at any time.

const Buckets& FirstTokenSeconds() {
  static const auto* buckets =
      new Buckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                  0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
  return *buckets;
}

const Buckets& InterTokenSeconds() {
  static const auto* buckets =
      new Buckets{0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.04, 0.05,
                  0.075,  0.1,   0.15,   0.2,   0.3,    0.5,  0.75,  1,     2.5};
  return *buckets;
}

// Steps of 1, 2, 5 in each decade: sums over them stay within a factor of 2.5.
const Buckets& CallSeconds() {
  static const auto* buckets =
      new Buckets{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                  1,      2,     5,     10,    20,   60,   120,  300, 600, 1800};
  return *buckets;
}

const Buckets& StepSeconds() {
  static const auto* buckets = new Buckets{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                           0.05,   0.1,    0.2,    0.5,   1,     2,     5};
  return *buckets;
}

const Buckets& RestoreSeconds() {
  static const auto* buckets =
      new Buckets{0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                  0.01,    0.02,    0.05,    0.1,    0.2,    0.5,    1,     2,     5};
  return *buckets;
}

const Buckets& BatchSizes() {
  static const auto* buckets = new Buckets{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  return *buckets;
}

const Buckets& TokenCounts() {
  static const auto* buckets =
      new Buckets{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536, 262144};
  return *buckets;
}

}  // namespace fermata
