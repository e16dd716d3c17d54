#ifndef FERMATA_CLIENT_MAKE_FAMILIES_H_
#define FERMATA_CLIENT_MAKE_FAMILIES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

namespace fermata::make {

struct Shape {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
};

// A family of models, and how its authors configure it.
struct Family {
  std::string_view name;          // The model_type of its config.json.
  std::string_view architecture;  // The class that its authors name there.
  // Layers for one of the preset's: models with one mixer a layer, and no feed-forward half, have
  // twice as many.
  int64_t layers_factor = 1;
  // Adds the fields of the mixers, for a hidden size: heads of the size that is published, and
  // smaller ones where the model is narrower than one of them.
  void (*add_fields)(int64_t hidden_size, nlohmann::ordered_json& config) = nullptr;
};

// A size that is published.
struct Preset {
  std::string_view name;
  Shape shape;
};

std::span<const Family> Families();
std::span<const Preset> Presets();
// Null when there is none of the name.
const Family* FindFamily(std::string_view name);
const Preset* FindPreset(std::string_view name);

// The config.json of such a model.
nlohmann::ordered_json MakeConfig(const Family& family, const Shape& shape);

}  // namespace fermata::make

#endif  // FERMATA_CLIENT_MAKE_FAMILIES_H_
