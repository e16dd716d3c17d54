#include "engine/layers/linear.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"
#include "engine/layers/part_clock.h"

namespace fermata {

absl::StatusOr<Linear> Linear::Read(const WeightScope& weights, std::string_view name, int64_t out,
                                    int64_t in, bool bias) {
  const WeightScope module = weights.Child(name);
  Linear linear;
  FERMATA_ASSIGN_OR_RETURN(linear.matrix_, ReadMatrix(module, "weight", out, in));
  if (bias) {
    FERMATA_ASSIGN_OR_RETURN(linear.bias_, module.Read("bias", {out}));
  }
  return linear;
}

absl::StatusOr<std::vector<Linear>> Linear::ReadParts(const WeightScope& weights,
                                                      std::string_view name,
                                                      std::initializer_list<int64_t> outs,
                                                      int64_t in, bool bias) {
  const WeightScope module = weights.Child(name);
  FERMATA_ASSIGN_OR_RETURN(std::vector<PackedMatrix> matrices,
                           ReadMatrices(module, "weight", outs, in));
  AlignedBuffer<float> biases;
  if (bias) {
    const int64_t total = std::accumulate(outs.begin(), outs.end(), int64_t{0});
    FERMATA_ASSIGN_OR_RETURN(biases, module.Read("bias", {total}));
  }
  std::vector<Linear> parts;
  const float* part_bias = biases.data();
  for (PackedMatrix& matrix : matrices) {
    Linear& part = parts.emplace_back();
    part.matrix_ = std::move(matrix);
    if (!bias) continue;
    part.bias_ = AlignedBuffer<float>(part.out_features());
    std::copy_n(part_bias, part.out_features(), part.bias_.data());
    part_bias += part.out_features();
  }
  return parts;
}

Product Linear::ToProduct(const float* x, float* y, Finish then) const {
  Product product = {.matrix = &matrix_, .x = x, .y = y, .finish = std::move(then)};
  if (bias_.empty()) return product;
  product.finish = [bias = bias_.data(), next = std::move(product.finish)](
                       int64_t row, int64_t column, float* piece, int64_t count) {
    Add(bias + column, piece, count);
    if (next != nullptr) next(row, column, piece, count);
  };
  return product;
}

void Linear::Apply(const float* x, int64_t rows, float* y, Finish then) const {
  const Product product = ToProduct(x, y, std::move(then));
  MultiplyTimed({&product, 1}, rows);
}

float* Linear::Apply(const float* x, int64_t rows, Arena& arena, Finish then) const {
  float* y = arena.Floats(rows * out_features());
  Apply(x, rows, y, std::move(then));
  return y;
}

float* LinearGroup::Add(const Linear& linear, const float* x, Finish then) {
  float* y = arena_.Floats(rows_ * linear.out_features());
  products_.push_back(linear.ToProduct(x, y, std::move(then)));
  return y;
}

void LinearGroup::Run() {
  MultiplyTimed(products_, rows_);
  products_.clear();
}

absl::StatusOr<LowRank> LowRank::Read(const WeightScope& weights, std::string_view down,
                                      std::string_view up, const LowRankOptions& options) {
  LowRank low_rank;
  FERMATA_ASSIGN_OR_RETURN(low_rank.down_, Linear::Read(weights, down, options.rank, options.in));
  FERMATA_ASSIGN_OR_RETURN(low_rank.up_,
                           Linear::Read(weights, up, options.out, options.rank, options.bias));
  low_rank.activation_ = options.activation;
  return low_rank;
}

float* LowRank::Apply(const float* x, int64_t rows, Arena& arena) const {
  float* y = arena.Floats(rows * up_.out_features());
  const Arena::Scope scope(arena);
  up_.Apply(down_.Apply(x, rows, arena, Activated(activation_)), rows, y);
  return y;
}

float* LowRank::AddDown(const float* x, LinearGroup& group) const {
  return group.Add(down_, x, Activated(activation_));
}

float* LowRank::AddUp(const float* inner, LinearGroup& group, Finish then) const {
  return group.Add(up_, inner, std::move(then));
}

}  // namespace fermata
