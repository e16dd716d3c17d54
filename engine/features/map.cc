#include "engine/features/map.h"

#include <cmath>
#include <optional>
#include <utility>

#include "engine/base/status.h"

namespace fermata {

absl::StatusOr<ConfigReader> MapOptions(const FeatureMapOptions& options) {
  std::optional<ConfigReader> given;
  if (options.config != nullptr) {
    FERMATA_ASSIGN_OR_RETURN(given, options.config->Object("feature_map_options"));
  }
  if (given.has_value()) return *std::move(given);
  return ConfigReader(nlohmann::json::object(), "feature_map_options");
}

absl::Status CheckAllRead(const ConfigReader& map_options) {
  const auto unread = map_options.Unread();
  if (unread.empty()) return absl::OkStatus();
  return map_options.Error(unread.front(), "this feature map has no such option");
}

absl::StatusOr<float> ReadScale(ConfigReader& map_options, int64_t head_dim) {
  const double softmax = std::pow(static_cast<double>(head_dim), -0.25);
  FERMATA_ASSIGN_OR_RETURN(const double scale, map_options.Number("scale", 1e-6, 1e6, softmax));
  return static_cast<float>(scale);
}

}  // namespace fermata
