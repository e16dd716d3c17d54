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

  // y [rows, out] for x [rows, in]; they must not overlap. `then` has the last word on y, see
  // kernels/matmul.h.
  void Apply(const float* x, int64_t rows, float* y, Finish then = {}) const;
  // The same, in scratch memory.
  float* Apply(const float* x, int64_t rows, Arena& arena, Finish then = {}) const;

  int64_t out_features() const { return matrix_.out_features(); }
  int64_t in_features() const { return matrix_.in_features(); }

 private:
  friend class LinearGroup;
  Product ToProduct(const float* x, float* y, Finish then) const;

  PackedMatrix matrix_;
  AlignedBuffer<float> bias_;  // [out], or empty.
};

// Linear maps of the same number of rows that need not wait for one another, computed together as
// kernels/matmul.h's MultiplyAll does. For one forward pass.
class LinearGroup {
 public:
  LinearGroup(int64_t rows, Arena& arena) : rows_(rows), arena_(arena) {}

  // What will be linear(x) [rows, out] once Run has returned, in scratch memory.
  float* Add(const Linear& linear, const float* x, Finish then = {});
  void Run();

 private:
  int64_t rows_;
  Arena& arena_;
  std::vector<Product> products_;
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

  // The same in two steps, each with others: inner = activation(down(x)), then up(inner).
  float* AddDown(const float* x, LinearGroup& group) const;
  float* AddUp(const float* inner, LinearGroup& group, Finish then = {}) const;

 private:
  Linear down_;
  Activation activation_ = Activation::kIdentity;
  Linear up_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_LINEAR_H_
