#include "engine/features/monomials.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/features/map.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

// The number of monomials of one degree in `variables` variables, or more than kMaxMonomials.
int64_t MonomialCount(int64_t variables, int64_t degree) {
  int64_t count = 1;  // C(variables - 1 + i, i), exact at each step.
  for (int64_t i = 1; i <= degree; ++i) {
    count = count * (variables - 1 + i) / i;
    if (count > kMaxMonomials) return kMaxMonomials + 1;
  }
  return count;
}

// The monomials of one degree. Those whose smallest index is at least i are a suffix, and those
// whose smallest index is i are x_i times the suffix i of the degree below: the whole degree is
// head_dim products of a vector by a number.
struct Degree {
  int64_t begin = 0;  // Of the degree's monomials among all.
  int64_t size = 0;
  std::vector<int64_t> suffix;  // [head_dim]: where smallest index i begins in the degree.
};

class MonomialMap : public SizedMap {
 public:
  MonomialMap(const PolynomialKernel& kernel, std::vector<Degree> degrees, int64_t feature_dim)
      : SizedMap(kernel.head_dim, feature_dim, false),
        scale_(kernel.scale),
        degrees_(std::move(degrees)),
        all_(degrees_.back().begin + degrees_.back().size),
        coefficients_(kernel.coefficients),
        weights_(all_) {
    for (size_t j = 0; j < degrees_.size(); ++j) {
      double factorial = 1;
      for (size_t i = 2; i <= j; ++i) factorial *= static_cast<double>(i);
      int64_t next = degrees_[j].begin;
      FillWeights(j, 0, 0, coefficients_[j] * factorial, next);
    }
  }

  void Apply(const float* x, int64_t rows, float* out) const override {
    AlignedBuffer<float> scaled(head_dim());
    AlignedBuffer<float> monomials(all_);
    for (int64_t row = 0; row < rows; ++row) {
      Scale(scale_, x + row * head_dim(), scaled.data(), head_dim());
      Expand(scaled.data(), monomials.data());
      Multiply(weights_.data(), monomials.data(), all_);
      float* to = out + row * feature_dim();
      for (size_t j = 0; j < degrees_.size(); ++j) {
        if (coefficients_[j] == 0) continue;
        to = std::copy_n(monomials.data() + degrees_[j].begin, degrees_[j].size, to);
      }
    }
  }

 private:
  void Expand(const float* x, float* monomials) const {
    monomials[0] = 1;
    for (size_t j = 1; j < degrees_.size(); ++j) {
      const Degree& below = degrees_[j - 1];
      float* to = monomials + degrees_[j].begin;
      for (int64_t i = 0; i < head_dim(); ++i) {
        const int64_t skip = j == 1 ? 0 : below.suffix[i];
        Scale(x[i], monomials + below.begin + skip, to, below.size - skip);
        to += below.size - skip;
      }
    }
  }

  // Weights of the monomials of `left` more factors with indices ≥ `first`, in their order; `rest`
  // is the square of the weight so far, and `run` how often the last index came already.
  void FillWeights(int64_t left, int64_t first, int64_t run, double rest, int64_t& next) {
    if (left == 0) {
      weights_[next++] = static_cast<float>(std::sqrt(rest));
      return;
    }
    for (int64_t i = first; i < head_dim(); ++i) {
      const int64_t repeats = i == first ? run + 1 : 1;
      FillWeights(left - 1, i, repeats, rest / static_cast<double>(repeats), next);
    }
  }

  float scale_;
  std::vector<Degree> degrees_;
  int64_t all_;  // Monomials of all degrees, those included that are only steps to higher ones.
  std::vector<double> coefficients_;
  AlignedBuffer<float> weights_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FeatureMap>> CreateMonomialMap(const PolynomialKernel& kernel) {
  std::vector<Degree> degrees(kernel.coefficients.size());
  int64_t all = 0;
  int64_t features = 0;
  for (size_t j = 0; j < degrees.size(); ++j) {
    degrees[j].begin = all;
    degrees[j].size = MonomialCount(kernel.head_dim, static_cast<int64_t>(j));
    for (int64_t i = 0; i < kernel.head_dim; ++i) {
      degrees[j].suffix.push_back(degrees[j].size -
                                  MonomialCount(kernel.head_dim - i, static_cast<int64_t>(j)));
    }
    all += degrees[j].size;
    if (kernel.coefficients[j] != 0) features += degrees[j].size;
    if (all > kMaxMonomials) {
      return absl::ResourceExhaustedError(
          absl::StrCat("monomials up to degree ", degrees.size() - 1, " in ", kernel.head_dim,
                       " variables are more than ", kMaxMonomials, " features"));
    }
  }
  return std::make_unique<MonomialMap>(kernel, std::move(degrees), features);
}

}  // namespace fermata
