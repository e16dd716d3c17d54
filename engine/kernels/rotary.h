#ifndef FERMATA_ENGINE_KERNELS_ROTARY_H_
#define FERMATA_ENGINE_KERNELS_ROTARY_H_

#include <cstdint>
#include <vector>

namespace fermata {

// Rotary position embedding (Su et al., "RoFormer", eq. 34), in the half-split layout: element i of
// a head is paired with element i + dim/2, and the pair is turned by position · base^(-2i/dim).
// Immutable and thread-safe.
class Rotary {
 public:
  // `dim` is the head's, and even.
  Rotary(int64_t dim, double base);

  // Turns each head of x [heads, dim], all at `position`, in place.
  void Rotate(int64_t position, int64_t heads, float* x) const;

  int64_t dim() const { return dim_; }

 private:
  int64_t dim_;
  std::vector<double> frequencies_;  // [dim / 2], in radians a token.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_ROTARY_H_
