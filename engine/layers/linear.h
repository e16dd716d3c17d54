#ifndef FERMATA_ENGINE_LAYERS_LINEAR_H_
#define FERMATA_ENGINE_LAYERS_LINEAR_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/arena.h"
#include "engine/base/weights.h"
#include "engine/kernels/matmul.h"
#include "engine/layers/activation.h"

namespace fermata {

// y = W x + b. Immutable and thread-safe.
class Linear {
 public:
  // Reads `name`.weight [out, in] and, with `bias`, `name`.bias [out].
  static absl::StatusOr<Linear> Read(const WeightScope& weights, std::string_view name, int64_t out,
                                     int64_t in, bool bias = false);
  // The same with the outputs cut into parts of `outs`, a product each.
  static absl::StatusOr<std::vector<Linear>> ReadParts(const WeightScope& weights,
                                                       std::string_view name,
                                                       std::initializer_list<int64_t> outs,
                                                       int64_t in, bool bias);

  // y [rows, out] for x [rows, in]; they must not overlap.
  void Apply(const float* x, int64_t rows, float* y) const;
  // The same, in scratch memory.
  float* Apply(const float* x, int64_t rows, Arena& arena) const;

  int64_t out_features() const { return matrix_.out_features(); }
  int64_t in_features() const { return matrix_.in_features(); }

 private:
  PackedMatrix matrix_;
  AlignedBuffer<float> bias_;  // [out], or empty.
};

// The sizes of a LowRank.
struct LowRankOptions {
  int64_t in = 0;
  int64_t rank = 0;
  int64_t out = 0;
  Activation activation = Activation::kIdentity;  // Between the two matrices.
  bool bias = false;                              // Of the second.
};

// y = up(activation(down(x))): a matrix of low rank, as gates and decays have it.
class LowRank {
 public:
  // `down` and `up` are the modules' names.
  static absl::StatusOr<LowRank> Read(const WeightScope& weights, std::string_view down,
                                      std::string_view up, const LowRankOptions& options);

  // y [rows, out] for x [rows, in], in scratch memory.
  float* Apply(const float* x, int64_t rows, Arena& arena) const;

 private:
  Linear down_;
  Activation activation_ = Activation::kIdentity;
  Linear up_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_LINEAR_H_
