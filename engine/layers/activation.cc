#include "engine/layers/activation.h"

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/kernels/elementwise.h"

namespace fermata {
namespace {

struct Named {
  std::string_view name;
  Activation activation;
};

constexpr Named kActivations[] = {
    {"identity", Activation::kIdentity},  {"relu", Activation::kRelu},
    {"sqrelu", Activation::kSquaredRelu}, {"sigmoid", Activation::kSigmoid},
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"tanh", Activation::kTanh},          {"gelu", Activation::kGelu},
};

}  // namespace

absl::StatusOr<Activation> ReadActivation(ConfigReader& config, std::string_view field,
                                          const std::string& fallback) {
  FERMATA_ASSIGN_OR_RETURN(const std::string name, config.String(field, fallback));
  std::string known;
  for (const Named& row : kActivations) {
    if (row.name == name) return row.activation;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(row.name));
  }
  return config.Error(field, Quoted(name) + " is not known; known are " + known);
}

void Activate(Activation activation, float* x, int64_t count) {
  switch (activation) {
    case Activation::kIdentity:
      return;
    case Activation::kRelu:
      return Relu(x, x, count);
    case Activation::kSquaredRelu:
      return SquaredRelu(x, x, count);
    case Activation::kSigmoid:
      return Sigmoid(x, x, count);
    case Activation::kSilu:
      return Silu(x, x, count);
    case Activation::kTanh:
      return Tanh(x, x, count);
    case Activation::kGelu:
      return Gelu(x, x, count);
  }
}

void ActivateAndMultiply(Activation activation, float* gate, float* x, int64_t count) {
  if (activation == Activation::kSilu) return SiluMultiply(gate, x, x, count);
  Activate(activation, gate, count);
  Multiply(gate, x, count);
}

}  // namespace fermata
