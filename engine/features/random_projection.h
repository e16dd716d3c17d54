#ifndef FERMATA_ENGINE_FEATURES_RANDOM_PROJECTION_H_
#define FERMATA_ENGINE_FEATURES_RANDOM_PROJECTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/config_reader.h"
#include "engine/features/feature_map.h"

namespace fermata {

// How the directions ω of a random feature map are drawn.
struct ProjectionOptions {
  int64_t num_features = 0;
  int64_t head_dim = 0;
  bool orthogonal = false;
  uint64_t seed = 0;
};

// ω [num_features, head_dim], each row distributed as N(0, I): a pure function of the options.
//
// Rows are independent, or, when `orthogonal`, mutually orthogonal within each block of head_dim
// rows, with directions uniform on the sphere and the lengths of independent normal vectors
// (Choromanski et al. 2021, "Rethinking Attention with Performers", §2.4). The last digit may
// differ from one C library to another: a model that must be the same everywhere stores its ω.
AlignedBuffer<float> DrawProjection(const ProjectionOptions& options);

// A map's ω with the factor that x is multiplied by first.
struct Projection {
  int64_t num_features = 0;
  float scale = 1;
  AlignedBuffer<float> omega;  // [num_features, head_dim]; not scaled.
};

// Reads num_features (default 2 · head_dim), scale, orthogonal and seed (default 0) from
// `map_options`. ω is the checkpoint's tensor `omega` [num_features, head_dim] when it has one,
// drawn otherwise. Every layer, head, q and k draw the same ω from the same seed.
absl::StatusOr<Projection> ReadProjection(const FeatureMapOptions& options,
                                          ConfigReader& map_options, bool orthogonal_by_default);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FEATURES_RANDOM_PROJECTION_H_
