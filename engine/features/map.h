#ifndef FERMATA_ENGINE_FEATURES_MAP_H_
#define FERMATA_ENGINE_FEATURES_MAP_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/features/feature_map.h"

namespace fermata {

// What the maps of this folder share, and the functions that the registry lists.

// A feature map whose sizes are known when it is made.
class SizedMap : public FeatureMap {
 public:
  int64_t head_dim() const final { return head_dim_; }
  int64_t feature_dim() const final { return feature_dim_; }
  bool non_negative() const final { return non_negative_; }

 protected:
  SizedMap(int64_t head_dim, int64_t feature_dim, bool non_negative)
      : head_dim_(head_dim), feature_dim_(feature_dim), non_negative_(non_negative) {}

 private:
  int64_t head_dim_;
  int64_t feature_dim_;
  bool non_negative_;
};

// The config's feature_map_options; an object without fields where there are none.
absl::StatusOr<ConfigReader> MapOptions(const FeatureMapOptions& options);

// INVALID_ARGUMENT that names a field of `map_options` which the map did not read.
absl::Status CheckAllRead(const ConfigReader& map_options);

// The field `scale`, by which a map that stands in for softmax attention multiplies x: by default
// head_dim^-1/4, so that the kernel is that of exp(q·k / √head_dim).
absl::StatusOr<float> ReadScale(ConfigReader& map_options, int64_t head_dim);

using MapOrError = absl::StatusOr<std::unique_ptr<FeatureMap>>;

MapOrError CreateDpfp(const FeatureMapOptions& options);
MapOrError CreateElementwiseProduct(const FeatureMapOptions& options);
MapOrError CreateElu(const FeatureMapOptions& options);
MapOrError CreateFavor(const FeatureMapOptions& options);
MapOrError CreateGeneralizedRelu(const FeatureMapOptions& options);
MapOrError CreateHedgehog(const FeatureMapOptions& options);
MapOrError CreateIdentity(const FeatureMapOptions& options);
MapOrError CreatePolynomial(const FeatureMapOptions& options);
MapOrError CreateRelu(const FeatureMapOptions& options);
MapOrError CreateRff(const FeatureMapOptions& options);
MapOrError CreateT2r(const FeatureMapOptions& options);
MapOrError CreateTaylor(const FeatureMapOptions& options);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FEATURES_MAP_H_
