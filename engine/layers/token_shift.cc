#include "engine/layers/token_shift.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

// What a number is worth in multiply-adds (base/parallel.h), measured with 64 rows of 768, which come
// from the third cache: about 1 ns.
constexpr int64_t kBlendWork = 32;

}  // namespace

TokenShift::TokenShift(int64_t dim, std::string state, StateLayout& layout)
    : dim_(dim), state_offset_(layout.Add(std::move(state), {dim})) {}

float* TokenShift::Delta(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                         Arena& arena) const {
  float* delta = arena.Floats(rows * dim_);
  for (const SequenceRows& sequence : sequences) {
    float* last = sequence.state + state_offset_;
    for (int64_t row = sequence.begin; row < sequence.begin + sequence.count; ++row) {
      const float* now = x + row * dim_;
      const float* before = row == sequence.begin ? last : now - dim_;
      float* out = delta + row * dim_;
      std::copy_n(before, dim_, out);
      MultiplyAdd(-1.0f, now, out, dim_);
    }
    std::copy_n(x + (sequence.begin + sequence.count - 1) * dim_, dim_, last);
  }
  return delta;
}

void TokenShift::MixInto(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                         std::span<const float* const> mus, std::span<float* const> mixed) const {
  std::vector<const float*> before(rows);
  for (const SequenceRows& sequence : sequences) {
    before[sequence.begin] = sequence.state + state_offset_;
    for (int64_t row = sequence.begin + 1; row < sequence.begin + sequence.count; ++row) {
      before[row] = x + (row - 1) * dim_;
    }
  }
  const auto work = dim_ * static_cast<int64_t>(mus.size()) * kBlendWork;
  ParallelFor(rows, work, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (size_t i = 0; i < mus.size(); ++i) {
        Blend(mus[i], x + row * dim_, before[row], mixed[i] + row * dim_, dim_);
      }
    }
  });
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  ParallelFor(num_sequences, dim_ * kBlendWork, [&](int64_t begin, int64_t end) {
    for (const SequenceRows& sequence : sequences.subspan(begin, end - begin)) {
      std::copy_n(x + (sequence.begin + sequence.count - 1) * dim_, dim_,
                  sequence.state + state_offset_);
    }
  });
}

float* Interpolate(const float* x, const float* delta, const float* mu, int64_t rows, int64_t dim,
                   Arena& arena) {
  float* out = arena.Floats(rows * dim);
  std::copy_n(delta, rows * dim, out);
  for (int64_t row = 0; row < rows; ++row) Multiply(mu, out + row * dim, dim);
  Add(x, out, rows * dim);
  return out;
}

}  // namespace fermata
