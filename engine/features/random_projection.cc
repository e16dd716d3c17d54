#include "engine/features/random_projection.h"

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/features/map.h"

namespace fermata {
namespace {

constexpr int64_t kMaxFeatures = 1 << 16;

// The streams of a seed's normals: the rows' elements, and, for orthogonal rows, the vectors that
// lend them their lengths.
constexpr uint64_t kElements = 0;
constexpr uint64_t kLengths = 1;

std::vector<double> NormalRow(const ProjectionOptions& options, int64_t row, uint64_t stream) {
  std::vector<double> values(options.head_dim);
  for (int64_t i = 0; i < options.head_dim; ++i) {
    values[i] = PhiloxNormal(options.seed, row * options.head_dim + i, stream);
  }
  return values;
}

double Inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void Multiply(double factor, std::vector<double>& values) {
  for (double& value : values) value *= factor;
}

// Gram-Schmidt: takes off `row` its parts along `basis`, twice, as once leaves rounding errors that
// grow with the dimension, and makes it of unit length.
void Orthonormalize(const std::vector<std::vector<double>>& basis, std::vector<double>& row) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::vector<double>& direction : basis) {
      const double along = Inner(direction, row);
      for (size_t i = 0; i < row.size(); ++i) row[i] -= along * direction[i];
    }
  }
  Multiply(1 / std::sqrt(Inner(row, row)), row);
}

}  // namespace

AlignedBuffer<float> DrawProjection(const ProjectionOptions& options) {
  AlignedBuffer<float> omega(options.num_features * options.head_dim);
  std::vector<std::vector<double>> basis;
  for (int64_t r = 0; r < options.num_features; ++r) {
    std::vector<double> row = NormalRow(options, r, kElements);
    if (options.orthogonal) {
      if (r % options.head_dim == 0) basis.clear();
      Orthonormalize(basis, row);
      basis.push_back(row);
      const std::vector<double> length = NormalRow(options, r, kLengths);
      Multiply(std::sqrt(Inner(length, length)), row);
    }
    for (int64_t i = 0; i < options.head_dim; ++i) {
      omega[r * options.head_dim + i] = static_cast<float>(row[i]);
    }
  }
  return omega;
}

absl::StatusOr<Projection> ReadProjection(const FeatureMapOptions& options,
                                          ConfigReader& map_options, bool orthogonal_by_default) {
  Projection projection;
  ProjectionOptions draw;
  draw.head_dim = options.head_dim;
  FERMATA_ASSIGN_OR_RETURN(draw.num_features,
                           map_options.Int("num_features", 1, kMaxFeatures, 2 * options.head_dim));
  FERMATA_ASSIGN_OR_RETURN(draw.orthogonal, map_options.Bool("orthogonal", orthogonal_by_default));
  FERMATA_ASSIGN_OR_RETURN(const int64_t seed,
                           map_options.Int("seed", 0, std::numeric_limits<int64_t>::max(), 0));
  draw.seed = static_cast<uint64_t>(seed);
  FERMATA_ASSIGN_OR_RETURN(projection.scale, ReadScale(map_options, options.head_dim));
  projection.num_features = draw.num_features;
  if (options.weights.Has("omega")) {
    FERMATA_ASSIGN_OR_RETURN(projection.omega,
                             options.weights.Read("omega", {draw.num_features, options.head_dim}));
  } else {
    projection.omega = DrawProjection(draw);
  }
  return projection;
}

}  // namespace fermata
