#include "engine/kernels/past_keys.h"

#include <algorithm>

#include "engine/kernels/block_product.h"
#include "engine/kernels/elementwise.h"

namespace fermata {

int64_t PastKeys::ScratchFloats(int64_t count, int64_t key_dim) { return count * (key_dim + 2); }

PastKeys::PastKeys(const Decays& decays, int64_t count, int64_t key_dim, const float* y,
                   int64_t y_stride, float* scratch)
    : decays_(decays),
      count_(count),
      key_dim_(key_dim),
      keys_(scratch),
      factors_(scratch + count * key_dim),
      scores_(scratch + count * key_dim + count) {
  Transpose(y, y_stride, count, key_dim, keys_, count);
  std::fill_n(factors_, count, 1.0f);
}

void PastKeys::Next() {
  if (decays_.values != nullptr && !decays_.per_channel) {
    Scale(*decays_.At(size_), factors_, size_);
  } else if (decays_.values != nullptr) {
    const float* w = decays_.At(size_);
    for (int64_t i = 0; i < key_dim_; ++i) Scale(w[i], keys_ + i * count_, size_);
  }
  ++size_;
}

void PastKeys::Read(const float* x, const float* v, int64_t v_stride, float* o, int64_t value_dim) {
  std::fill_n(scores_, size_, 0.0f);
  MultiplyAccumulate({.a = x,
                      .b = keys_,
                      .b_stride = count_,
                      .c = scores_,
                      .rows = 1,
                      .inner = key_dim_,
                      .columns = size_});
  Multiply(factors_, scores_, size_);
  MultiplyAccumulate({.a = scores_,
                      .b = v,
                      .b_stride = v_stride,
                      .c = o,
                      .rows = 1,
                      .inner = size_,
                      .columns = value_dim});
}

void PastKeys::AddTo(float* S, const float* v, int64_t v_stride, int64_t value_dim) {
  for (int64_t i = 0; i < key_dim_; ++i) {
    std::copy_n(keys_ + i * count_, size_, scores_);
    Multiply(factors_, scores_, size_);
    MultiplyAccumulate({.a = scores_,
                        .b = v,
                        .b_stride = v_stride,
                        .c = S + i * value_dim,
                        .rows = 1,
                        .inner = size_,
                        .columns = value_dim});
  }
}

PastState::PastState(const Decays& decays, int64_t key_dim, float* S, int64_t value_dim,
                     float* scratch)
    : decays_(decays),
      key_dim_(key_dim),
      value_dim_(value_dim),
      S_(S),
      prefix_(scratch),
      row_(scratch + key_dim) {
  std::fill_n(prefix_, key_dim, 1.0f);
}

void PastState::Next() {
  if (decays_.values != nullptr && !decays_.per_channel) {
    Scale(*decays_.At(tokens_), prefix_, key_dim_);
  } else if (decays_.values != nullptr) {
    Multiply(decays_.At(tokens_), prefix_, key_dim_);
  }
  ++tokens_;
}

void PastState::Read(const float* x, float* o) {
  std::copy_n(x, key_dim_, row_);
  Multiply(prefix_, row_, key_dim_);
  MultiplyAccumulate({.a = row_,
                      .b = S_,
                      .b_stride = value_dim_,
                      .c = o,
                      .rows = 1,
                      .inner = key_dim_,
                      .columns = value_dim_});
}

void PastState::DecayState() {
  for (int64_t i = 0; i < key_dim_; ++i) Scale(prefix_[i], S_ + i * value_dim_, value_dim_);
}

}  // namespace fermata
