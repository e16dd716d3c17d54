// The recurrences against what the code that published them computes: every vector of the
// conformance folder's ops/, every head, in every form.

#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "engine/kernels/elementwise.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/engine/kernels/recurrence_testing.h"

namespace fermata {
namespace {

using Tensors = std::map<std::string, TestTensor>;

// One head of an operator, in the kernels' terms.
struct Head {
  Recurrence run;
  bool delta = false;
  std::vector<float> out;
  std::vector<float> S;  // After the run; empty where the reference does not tell.
  std::vector<float> z;
};

// Which tensor is what, and what the reference does that is the layers' part here.
struct Operator {
  std::string q = "q";
  std::string k = "k";
  std::string S;  // The state after the run; empty: not there.
  std::string z;
  bool heads_first = false;  // [1, heads, tokens, dim], not [1, tokens, heads, dim].
  bool scale = false;        // q is to be divided by √dim.
  // The reference divides by q·z + eps + eps_of_sum · Σ q; none if both are 0.
  double eps = 0;
  double eps_of_sum = 0;
  // Fills in the rest from the tensors of the head.
  std::function<void(const std::map<std::string, std::vector<float>>&, int64_t head, Head&)> rest;
};

using HeadTensors = std::map<std::string, std::vector<float>>;

// What belongs to one head of every tensor: rows of tokens, or a state.
HeadTensors OfHead(const Tensors& tensors, const Operator& op, int64_t head) {
  const TestTensor& q = tensors.at(op.q);
  const int64_t tokens = q.shape[op.heads_first ? 2 : 1];
  const int64_t heads = q.shape[op.heads_first ? 1 : 2];
  HeadTensors result;
  for (const auto& [name, tensor] : tensors) {
    const bool of_tokens = !op.heads_first && tensor.shape.size() >= 3 && tensor.shape[1] == tokens;
    const int64_t rows = of_tokens ? tokens : 1;
    const auto size = static_cast<int64_t>(tensor.values.size());
    if (size % (rows * heads) != 0) continue;
    const int64_t dim = size / rows / heads;
    std::vector<float>& own = result[name];
    for (int64_t row = 0; row < rows; ++row) {
      const float* begin = tensor.values.data() + (row * heads + head) * dim;
      own.insert(own.end(), begin, begin + dim);
    }
  }
  return result;
}

// Turns out = num / reference's denominator into num / (q·z + 1e-10), which is the kernels'.
void SwapEpsilon(const Operator& op, Head& head) {
  const Recurrence& r = head.run;
  std::vector<double> z(r.key_dim);
  for (int64_t t = 0; t < r.count; ++t) {
    double denominator = 0;
    double sum = 0;
    for (int64_t i = 0; i < r.key_dim; ++i) {
      const double q = r.q[t * r.key_dim + i];
      z[i] += r.k[t * r.key_dim + i];
      denominator += q * z[i];
      sum += q;
    }
    const double factor = (denominator + op.eps + op.eps_of_sum * sum) / (denominator + 1e-10);
    for (int64_t j = 0; j < r.value_dim; ++j) {
      float& value = head.out[t * r.value_dim + j];
      value = static_cast<float>(value * factor);
    }
  }
}

Head ReadHead(const Tensors& tensors, const Operator& op, int64_t index) {
  const HeadTensors own = OfHead(tensors, op, index);
  const TestTensor& q = tensors.at(op.q);
  const int64_t count = q.shape[op.heads_first ? 2 : 1];
  const int64_t key_dim = q.shape[3];
  const int64_t value_dim = tensors.at("v").shape[3];
  Head head{.run = {.count = count,
                    .key_dim = key_dim,
                    .value_dim = value_dim,
                    .q = own.at(op.q),
                    .k = own.at(op.k),
                    .v = own.at("v"),
                    .o = std::vector<float>(count * value_dim, NAN),
                    .S = std::vector<float>(key_dim * value_dim)},
            .out = own.at("out")};
  if (own.contains("initial_state")) head.run.S = own.at("initial_state");
  if (!op.S.empty()) head.S = own.at(op.S);
  if (!op.z.empty()) head.z = own.at(op.z);
  if (op.rest) op.rest(own, index, head);
  if (op.scale) {
    Scale(1 / std::sqrt(static_cast<float>(key_dim)), head.run.q.data(), count * key_dim);
  }
  if (op.eps != 0 || op.eps_of_sum != 0) {
    head.run.z.assign(key_dim, 0.0f);
    SwapEpsilon(op, head);
  }
  return head;
}

void SetDecays(DecayKind kind, const std::vector<float>& logarithms, Head& head) {
  head.run.kind = kind;
  for (const float x : logarithms) head.run.decay.push_back(std::exp(x));
}

void SetRetention(const HeadTensors&, int64_t index, Head& head) {
  head.run.kind = DecayKind::kConstant;
  head.run.decay = {1 - std::ldexp(1.0f, -5 - static_cast<int>(index))};
}

// k̂ becomes β k̂, and a is k̂ decayed by its token.
void SetDelta(const HeadTensors& own, int64_t, Head& head) {
  Recurrence& r = head.run;
  head.delta = true;
  if (own.contains("g")) SetDecays(DecayKind::kPerToken, own.at("g"), head);
  for (int64_t t = 0; t < r.count; ++t) {
    for (int64_t i = 0; i < r.key_dim; ++i) {
      float& k = r.k[t * r.key_dim + i];
      r.a.push_back(k * static_cast<float>(r.Decay64(t, i)));
      k *= own.at("beta")[t];
    }
  }
}

void SetRwkv6(const HeadTensors& own, int64_t, Head& head) {
  SetDecays(DecayKind::kPerChannel, own.at("w"), head);
  head.run.bonus = own.at("u");
}

void SetRwkv7(const HeadTensors& own, int64_t, Head& head) {
  SetDecays(DecayKind::kPerChannel, own.at("w"), head);
  head.delta = true;
  for (size_t i = 0; i < own.at("kk").size(); ++i) {
    head.run.a.push_back(-own.at("kk")[i]);
    head.run.b.push_back(own.at("kk")[i] * own.at("a")[i]);
  }
}

void SetElu(const HeadTensors&, int64_t, Head& head) {
  for (std::vector<float>* x : {&head.run.q, &head.run.k}) {
    EluPlusOne(x->data(), x->data(), static_cast<int64_t>(x->size()));
  }
}

// The features that performer-pytorch has without a projection: softmax(q) and e^k.
void SetSoftmax(const HeadTensors&, int64_t, Head& head) {
  Recurrence& r = head.run;
  for (std::vector<float>* x : {&r.q, &r.k}) {
    for (float& value : *x) value = std::exp(value);
  }
  for (int64_t t = 0; t < r.count; ++t) {
    float sum = 0;
    for (int64_t i = 0; i < r.key_dim; ++i) sum += r.q[t * r.key_dim + i];
    for (int64_t i = 0; i < r.key_dim; ++i) r.q[t * r.key_dim + i] /= sum;
  }
}

auto Gates(std::string name, DecayKind kind) {
  return [name, kind](const HeadTensors& own, int64_t, Head& head) {
    SetDecays(kind, own.at(name), head);
  };
}

std::map<std::string, Operator> Operators() {
  const std::string S = "final_state";
  const Operator features{.q = "phi_q", .k = "phi_k", .S = "state_S", .z = "state_Z", .eps = 1e-6};
  const Operator performer{.q = "phi_q", .k = "phi_k", .heads_first = true, .eps_of_sum = 1e-6};
  return {
      {"fla_linear_attn", {.S = S, .scale = true}},
      {"fla_linear_attn_normalized", {.S = S, .z = "final_z", .scale = true, .eps = 1e-10}},
      {"fla_retention", {.S = S, .scale = true, .rest = SetRetention}},
      {"fla_simple_gla", {.S = S, .scale = true, .rest = Gates("g", DecayKind::kPerToken)}},
      {"fla_gla", {.S = S, .scale = true, .rest = Gates("gk", DecayKind::kPerChannel)}},
      {"fla_delta_rule", {.S = S, .scale = true, .rest = SetDelta}},
      {"fla_gated_delta_rule", {.S = S, .scale = true, .rest = SetDelta}},
      {"fla_rwkv6", {.q = "r", .S = S, .rest = SetRwkv6}},
      {"fla_rwkv7", {.q = "r", .S = S, .rest = SetRwkv7}},
      {"fast_transformers_causal_linear_elu1",
       {.S = "state_S", .z = "state_Z", .eps = 1e-6, .rest = SetElu}},
      {"fast_transformers_causal_linear_favor", features},
      {"fast_transformers_causal_linear_favor_temp1", features},
      {"fast_transformers_causal_linear_generalized_relu", features},
      {"performer_pytorch_favor", performer},
      {"performer_pytorch_favor_orthoscaling1", performer},
      {"performer_pytorch_generalized_relu", performer},
      {"performer_pytorch_no_projection",
       {.heads_first = true, .eps_of_sum = 1e-6, .rest = SetSoftmax}},
      {"slim_performer_favorplus", {.q = "phi_q", .k = "phi_k", .eps = 1e-16}},
  };
}

TEST(OpsConformanceTest, RecurrencesMatchTheirReferences) {
  FERMATA_SKIP_WITHOUT_CONFORMANCE();
  const std::filesystem::path folder = *ConformanceDir() / "ops";
  const std::map<std::string, Operator> operators = Operators();
  const nlohmann::json index = ReadJson(folder / "index.json");
  int checked = 0;
  for (const auto& [name, description] : index.items()) {
    const auto it = operators.find(name);
    if (it == operators.end()) {
      std::cout << "skipped: " << name << " is of an unknown kind\n";
      continue;
    }
    const Tensors tensors = ReadSafetensors(folder / (name + ".safetensors"));
    const int64_t heads = tensors.at(it->second.q).shape[it->second.heads_first ? 1 : 2];
    for (int64_t index = 0; index < heads; ++index) {
      for (const Form form : kForms) {
        SCOPED_TRACE(testing::Message() << name << ", head " << index << ", " << FormName(form));
        Head head = ReadHead(tensors, it->second, index);
        EXPECT_EQ(
            head.delta ? Compute(head.run.Delta(), 0, form) : Compute(head.run.Decay(), 0, form),
            0);
        ExpectClose(head.run.o, head.out, 1e-5);
        if (!head.S.empty()) ExpectClose(head.run.S, head.S, 1e-5);
        if (!head.z.empty()) ExpectClose(head.run.z, head.z, 1e-5);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace fermata
