#ifndef FERMATA_ENGINE_LAYERS_HEADS_H_
#define FERMATA_ENGINE_LAYERS_HEADS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/arena.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"
#include "engine/kernels/rotary.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/layers/sequence.h"

namespace fermata {

// Parts of flash-linear-attention's layers that have to do with heads.

inline constexpr int64_t kMaxHeads = 4096;

// What normalising and gating a number of the output are worth in multiply-adds (base/parallel.h).
inline constexpr int64_t kGateWork = 32;

// | config             | meaning                                                              |
// | ------------------ | -------------------------------------------------------------------- |
// | num_heads          | heads of q, and of the state                                         |
// | num_kv_heads       | heads of k and v, each shared by a group of heads; divides num_heads |
// | expand_k, expand_v | width of all heads' q, and v, over hidden_size                       |
struct HeadSizes {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t key_dim = 0;    // Of one head's q or k.
  int64_t value_dim = 0;  // Of one head's v.

  // The head of k and v that `head` reads.
  int64_t kv_head(int64_t head) const { return head / (num_heads / num_kv_heads); }
  int64_t kv_floats() const { return num_kv_heads * (key_dim + value_dim); }
};

struct HeadDefaults {
  int64_t num_heads = 0;
  double expand_k = 1;
  double expand_v = 1;
  bool grouped = true;  // Whether the layer knows of num_kv_heads.
};

// INVALID_ARGUMENT that names the field, also where widths are no multiples of num_heads.
absl::StatusOr<HeadSizes> ReadHeadSizes(ConfigReader& config, int64_t hidden_size,
                                        const HeadDefaults& defaults);

// Turns each head of x [rows, heads, dim], the rows of `sequences`, by its token's position.
void Rotate(const Rotary& rotary, std::span<const SequenceRows> sequences, int64_t heads, float* x);

struct HeadOutputOptions {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  // What the norm's module may be called: the first name that the checkpoint has counts. Empty: no
  // norm.
  std::vector<std::string_view> norm_names;
  float norm_eps = 0;
  bool norm_weight = true;
  bool gate = false;
  Activation gate_activation = Activation::kSilu;
};

// `defaults` with what the config says of
//
// | config             | default       | meaning                                        |
// | ------------------ | ------------- | ---------------------------------------------- |
// | norm_eps           | 1e-6          | the norm's epsilon                             |
// | `gate_field`       | defaults.gate | whether there is a gate                        |
absl::StatusOr<HeadOutputOptions> ReadHeadOutput(ConfigReader& config, std::string_view gate_field,
                                                 HeadOutputOptions defaults);

// The field elementwise_affine: whether a norm has weights. Published layers have them by default,
// and none for an explicit null.
absl::StatusOr<bool> ReadElementwiseAffine(ConfigReader& config);

// The way out: y = W_o (RMSNorm(o) ∘ act(W_g x)), the norm of each head. Immutable and thread-safe.
class HeadOutput {
 public:
  // Reads o_proj, and the norm and g_proj as far as there are any.
  static absl::StatusOr<HeadOutput> Read(const WeightScope& weights,
                                         const HeadOutputOptions& options);

  // The gate of the layer's input x [rows, hidden_size], computed with the others of `group`; null
  // without one.
  float* AddGate(const float* x, LinearGroup& group) const;

  // y [rows, hidden_size] for o [rows, num_heads, head_dim] and what AddGate gave, which are left
  // with unspecified values.
  void Apply(float* gate, int64_t rows, float* o, float* y) const;

 private:
  int64_t num_heads_ = 0;
  int64_t width_ = 0;  // Of all heads.
  std::optional<Norm> norm_;
  std::optional<Linear> gate_;
  Activation gate_activation_ = Activation::kSilu;
  Linear output_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_HEADS_H_
