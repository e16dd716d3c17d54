#ifndef FERMATA_ENGINE_LAYERS_ACTIVATION_H_
#define FERMATA_ENGINE_LAYERS_ACTIVATION_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"

namespace fermata {

enum class Activation { kIdentity, kRelu, kSquaredRelu, kSigmoid, kSilu, kTanh, kGelu };

// The activation that the config's `field` names, in the words of published configs: relu, sqrelu,
// sigmoid, silu or swish, tanh, gelu (its tanh form), identity. `fallback` is such a name too.
// INVALID_ARGUMENT that lists them for any other.
absl::StatusOr<Activation> ReadActivation(ConfigReader& config, std::string_view field,
                                          const std::string& fallback);

// x[i] = activation(x[i]).
void Activate(Activation activation, float* x, int64_t count);

// x[i] *= activation(gate[i]); `gate` is left with unspecified values.
void ActivateAndMultiply(Activation activation, float* gate, float* x, int64_t count);

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_ACTIVATION_H_
