#include <string>

#include "absl/strings/str_cat.h"
#include "engine/features/feature_map.h"
#include "engine/features/map.h"

namespace fermata {

std::span<const FeatureMapEntry> FeatureMaps() {
  static constexpr FeatureMapEntry kMaps[] = {
      {"dpfp", CreateDpfp},
      {"elementwise_product", CreateElementwiseProduct},
      {"elu", CreateElu},
      {"favor", CreateFavor},
      {"generalized_relu", CreateGeneralizedRelu},
      {"hedgehog", CreateHedgehog},
      {"identity", CreateIdentity},
      {"polynomial", CreatePolynomial},
      {"relu", CreateRelu},
      {"rff", CreateRff},
      {"t2r", CreateT2r},
      {"taylor", CreateTaylor},
  };
  return kMaps;
}

absl::StatusOr<std::unique_ptr<FeatureMap>> CreateFeatureMap(std::string_view name,
                                                             const FeatureMapOptions& options) {
  std::string names;
  for (const FeatureMapEntry& entry : FeatureMaps()) {
    if (entry.name == name) return entry.create(options);
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(entry.name));
  }
  return options.config->Error(
      "feature_map", absl::StrCat("there is no ", std::string(name), "; there are ", names));
}

}  // namespace fermata
