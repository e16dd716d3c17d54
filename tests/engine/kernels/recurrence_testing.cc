#include "tests/engine/kernels/recurrence_testing.h"

#include <algorithm>

#include "tests/random_weights.h"

namespace fermata {
namespace {

// Mostly near 1, as gates are, with the hard cases in between.
std::vector<float> RandomDecays(int64_t count) {
  std::vector<float> decays = RandomNormals(11, count);
  const std::vector<float> choice = RandomNormals(12, count);
  for (int64_t i = 0; i < count; ++i) {
    decays[i] = std::exp(-decays[i] * decays[i] * 0.3f);
    if (choice[i] > 2.3f) decays[i] = 0;
    if (choice[i] < -2.3f) decays[i] = 1e-30f;
    if (std::abs(choice[i]) < 0.1f) decays[i] = 1;
  }
  return decays;
}

void NormaliseRows(std::vector<float>& rows, int64_t dim) {
  for (size_t row = 0; row < rows.size(); row += dim) {
    double square = 0;
    for (int64_t i = 0; i < dim; ++i) square += rows[row + i] * rows[row + i];
    for (int64_t i = 0; i < dim; ++i) rows[row + i] /= static_cast<float>(std::sqrt(square));
  }
}

// xᵀ S.
std::vector<double> Read(const Recurrence& r, const float* x, const std::vector<double>& S) {
  std::vector<double> result(r.value_dim);
  for (int64_t i = 0; i < r.key_dim; ++i) {
    for (int64_t j = 0; j < r.value_dim; ++j) result[j] += x[i] * S[i * r.value_dim + j];
  }
  return result;
}

}  // namespace

Recurrence RandomRecurrence(const RecurrenceSize& size, DecayKind kind) {
  const auto& [count, key_dim, value_dim] = size;
  Recurrence r{.count = count,
               .key_dim = key_dim,
               .value_dim = value_dim,
               .kind = kind,
               .q = RandomNormals(1, count * key_dim),
               .k = RandomNormals(2, count * key_dim),
               .v = RandomNormals(3, count * value_dim),
               .a = RandomNormals(4, count * key_dim),
               .o = std::vector<float>(count * value_dim, NAN),
               .S = RandomNormals(5, key_dim * value_dim)};
  if (kind == DecayKind::kConstant) r.decay = {0.9f};
  if (kind == DecayKind::kConstantPerChannel) r.decay = RandomDecays(key_dim);
  if (kind == DecayKind::kPerToken) r.decay = RandomDecays(count);
  if (kind == DecayKind::kPerChannel) r.decay = RandomDecays(count * key_dim);
  NormaliseRows(r.a, key_dim);
  const std::vector<float> rates = RandomNormals(6, count * key_dim);
  for (int64_t i = 0; i < count * key_dim; ++i) {
    r.b.push_back(r.a[i] / (1 + std::exp(-rates[i])));
    r.a[i] = -r.a[i];
  }
  return r;
}

Recurrence64 DecayOracle(const Recurrence& r) {
  Recurrence64 result{.o = {}, .S = {r.S.begin(), r.S.end()}, .z = {r.z.begin(), r.z.end()}};
  for (int64_t t = 0; t < r.count; ++t) {
    const float* q = &r.q[t * r.key_dim];
    const float* k = &r.k[t * r.key_dim];
    const float* v = &r.v[t * r.value_dim];
    std::vector<double> o = Read(r, q, result.S);
    double denominator = 1e-10;
    double own = 0;
    for (int64_t i = 0; i < r.key_dim; ++i) {
      const double w = r.Decay64(t, i);
      for (int64_t j = 0; j < r.value_dim; ++j) {
        double& s = result.S[i * r.value_dim + j];
        s = w * s + static_cast<double>(k[i]) * v[j];
      }
      if (!r.bonus.empty()) own += static_cast<double>(q[i]) * r.bonus[i] * k[i];
      if (r.z.empty()) continue;
      result.z[i] = w * result.z[i] + k[i];
      denominator += q[i] * result.z[i];
    }
    if (r.bonus.empty()) o = Read(r, q, result.S);
    for (int64_t j = 0; j < r.value_dim; ++j) {
      if (!r.bonus.empty()) o[j] += own * v[j];
      result.o.push_back(r.z.empty() ? o[j] : o[j] / denominator);
    }
  }
  return result;
}

Recurrence64 DeltaOracle(const Recurrence& r) {
  Recurrence64 result{.o = {}, .S = {r.S.begin(), r.S.end()}, .z = {}};
  for (int64_t t = 0; t < r.count; ++t) {
    const float* k = &r.k[t * r.key_dim];
    const float* v = &r.v[t * r.value_dim];
    const std::vector<double> u = Read(r, &r.a[t * r.key_dim], result.S);
    for (int64_t i = 0; i < r.key_dim; ++i) {
      const double b = r.b.empty() ? -k[i] : r.b[t * r.key_dim + i];
      for (int64_t j = 0; j < r.value_dim; ++j) {
        double& s = result.S[i * r.value_dim + j];
        s = r.Decay64(t, i) * s + b * u[j] + static_cast<double>(k[i]) * v[j];
      }
    }
    const std::vector<double> o = Read(r, &r.q[t * r.key_dim], result.S);
    result.o.insert(result.o.end(), o.begin(), o.end());
  }
  return result;
}

std::vector<RecurrenceSize> RecurrenceSizes() {
  return {{1, 1, 1},   {2, 3, 5},    {15, 1, 33},  {16, 16, 24}, {17, 5, 1},
          {63, 33, 7}, {64, 64, 32}, {65, 17, 67}, {130, 8, 16}, {200, 31, 13}};
}

}  // namespace fermata
