#ifndef FERMATA_ENGINE_FEATURES_FEATURE_MAP_H_
#define FERMATA_ENGINE_FEATURES_FEATURE_MAP_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"

namespace fermata {

// A feature map φ: R^head_dim → R^feature_dim, so that φ(q)·φ(k) stands in for a kernel κ(q, k)
// ("Linear Attention & Kernel Methods", eq. 2). Immutable and thread-safe once made.
class FeatureMap {
 public:
  virtual ~FeatureMap() = default;

  virtual int64_t head_dim() const = 0;
  virtual int64_t feature_dim() const = 0;
  // Whether φ(x) ≥ 0 everywhere, so that φ(q)ᵀz can not vanish or change sign by cancellation.
  virtual bool non_negative() const = 0;

  // out [rows, feature_dim] = φ of each row of x [rows, head_dim]. Rows are independent. x and out
  // must not overlap.
  virtual void Apply(const float* x, int64_t rows, float* out) const = 0;
};

// What a feature map is made from.
struct FeatureMapOptions {
  int64_t head_dim = 0;
  // The model's config, of which a map reads the object `feature_map_options`; may be null, for a
  // map with default options. A field that the map does not have is an error.
  ConfigReader* config = nullptr;
  // Tensors of the map in the checkpoint (…attn.feature_map_q.), where it has any.
  WeightScope weights;
};

// The maps by their names in the config, d being head_dim. The first seven are those of published
// linear_attn checkpoints; they have no options, and layers scale q by d^-1/2 after them.
//
//   name                 features           tensors (of the map)     κ(q, k) or φ(x)
//   elu                  d                  -                        elu(x) + 1
//   relu                 d                  -                        max(x, 0)
//   identity             d                  -                        q·k
//   hedgehog             2d                 layer.{weight,bias}      softmax([2y, -2y]), y = Wx + b
//   t2r                  d                  layer.weight             max(Wx, 0)
//   dpfp                 8d                 -                        products of rectified elements
//   elementwise_product  d                  layer{1,2}.{weight,bias} (W₁x + b₁) ⊙ (W₂x + b₂)
//   rff                  2 · num_features   omega, optional          ≈ exp(-|q' - k'|² / 2)
//   favor                num_features, or   omega, optional          ≈ exp(q'·k')
//                        twice that
//   generalized_relu     num_features       omega, optional          max(ω_i·x', 0) + epsilon
//   taylor               C(d + order, d)    -                        Σ_{j ≤ order} (q'·k')^j / j!
//   polynomial           monomials          -                        (q'·k' + constant)^degree
//
// The last five read these fields of `feature_map_options`; x' = scale · x:
//
//   field         maps                          default    meaning
//   scale         all five                      d^-1/4     so that q'·k' = q·k / √d, the logits of
//                                                          softmax attention (polynomial: 1). A
//                                                          factor on q after the map cancels when
//                                                          outputs are normalised.
//   num_features  rff, favor, generalized_relu  2d         number of directions ω_i
//   orthogonal    rff, favor, generalized_relu  true;      directions orthogonal in blocks of d
//                                               rff false
//   seed          rff, favor, generalized_relu  0          of ω, where the checkpoint stores none
//   hyperbolic    favor                         false      features for -ω_i too
//   epsilon       generalized_relu              0.001
//   order         taylor                        2          1 to 16
//   degree        polynomial                    2          1 to 16
//   constant      polynomial                    0          0 or more

// One row of the registry. `create` fails with INVALID_ARGUMENT that names the field or tensor.
struct FeatureMapEntry {
  std::string_view name;  // As the config's `feature_map` field spells it.
  absl::StatusOr<std::unique_ptr<FeatureMap>> (*create)(const FeatureMapOptions& options);
};

// Every feature map there is.
std::span<const FeatureMapEntry> FeatureMaps();

// The map that `name` stands for, or INVALID_ARGUMENT that lists the names there are.
absl::StatusOr<std::unique_ptr<FeatureMap>> CreateFeatureMap(std::string_view name,
                                                             const FeatureMapOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FEATURES_FEATURE_MAP_H_
