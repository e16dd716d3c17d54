#ifndef FERMATA_ENGINE_LAYERS_ACTIVATION_H_
#define FERMATA_ENGINE_LAYERS_ACTIVATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/kernels/matmul.h"

namespace fermata {

enum class Activation {
  kIdentity,
  kRelu,
  kSquaredRelu,
  kSigmoid,
  kLogSigmoid,
  kSilu,
  kTanh,
  kGelu,  // Its tanh form.
  kEluPlusOne,
};

// Whose words a config speaks: the libraries do not mean the same by "gelu".
enum class ActivationNames { kFla, kTransformers };

// The activation that the config's `field` names. `fallback` is such a name too. INVALID_ARGUMENT
// that lists those there are for any other.
absl::StatusOr<Activation> ReadActivation(ConfigReader& config, std::string_view field,
                                          const std::string& fallback,
                                          ActivationNames names = ActivationNames::kFla);

// x[i] = activation(x[i]).
void Activate(Activation activation, float* x, int64_t count);

// The same on what a product gives; nothing for the identity.
Finish Activated(Activation activation);

// x[i] *= activation(gate[i]); `gate` is left with unspecified values.
void ActivateAndMultiply(Activation activation, float* gate, float* x, int64_t count);

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_ACTIVATION_H_
