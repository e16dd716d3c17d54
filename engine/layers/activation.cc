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
  bool fla;
  bool transformers;
};

// transformers' "gelu" is the exact one, which is not here.
constexpr Named kActivations[] = {
    {"identity", Activation::kIdentity, true, false},
    {"linear", Activation::kIdentity, false, true},
    {"relu", Activation::kRelu, true, true},
    {"sqrelu", Activation::kSquaredRelu, true, false},
    {"relu2", Activation::kSquaredRelu, false, true},
    {"sigmoid", Activation::kSigmoid, true, true},
    {"logsigmoid", Activation::kLogSigmoid, true, false},
    {"silu", Activation::kSilu, true, true},
    {"swish", Activation::kSilu, true, true},
    {"tanh", Activation::kTanh, true, true},
    {"gelu", Activation::kGelu, true, false},
    {"gelu_new", Activation::kGelu, false, true},
    {"gelu_pytorch_tanh", Activation::kGelu, false, true},
};

}  // namespace

absl::StatusOr<Activation> ReadActivation(ConfigReader& config, std::string_view field,
                                          const std::string& fallback, ActivationNames names) {
  FERMATA_ASSIGN_OR_RETURN(const std::string name, config.String(field, fallback));
  std::string known;
  for (const Named& row : kActivations) {
    if (!(names == ActivationNames::kFla ? row.fla : row.transformers)) continue;
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
    case Activation::kLogSigmoid:
      Scale(-1.0f, x, count);
      Softplus(x, x, count);
      return Scale(-1.0f, x, count);
    case Activation::kSilu:
      return Silu(x, x, count);
    case Activation::kTanh:
      return Tanh(x, x, count);
    case Activation::kGelu:
      return Gelu(x, x, count);
    case Activation::kEluPlusOne:
      return EluPlusOne(x, x, count);
  }
}

Finish Activated(Activation activation) {
  if (activation == Activation::kIdentity) return {};
  return
      [activation](int64_t, int64_t, float* y, int64_t count) { Activate(activation, y, count); };
}

void ActivateAndMultiply(Activation activation, float* gate, float* x, int64_t count) {
  if (activation == Activation::kSilu) return SiluMultiply(gate, x, x, count);
  Activate(activation, gate, count);
  Multiply(gate, x, count);
}

}  // namespace fermata
