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
  // The model's config; a map reads the fields that are its own (say, feature_dim or seed).
  ConfigReader* config = nullptr;
  // Tensors of the map in the checkpoint (…attn.feature_map_q.), where it has any.
  WeightScope weights;
};

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
