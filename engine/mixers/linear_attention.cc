#include "engine/mixers/linear_attention.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/status.h"
#include "engine/features/feature_map.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/layers/activation.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"

namespace fermata {
namespace {

constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxTaps = 64;

struct Config {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_k_dim = 0;
  int64_t head_v_dim = 0;
  std::string feature_map;
  bool tie_feature_map_qk = false;
  bool norm_q = false;
  bool norm_k = false;
  bool normalise = false;
  bool output_norm = true;
  bool elementwise_affine = true;
  float norm_eps = 0;
  std::vector<float> decay;  // One per head, or none.
  int64_t taps = 0;          // 0: no convolutions.
  bool conv_bias = false;
  bool gate = false;
};

// The width of one head, when all heads together are `expand` times as wide as the model.
absl::StatusOr<int64_t> HeadDim(ConfigReader& reader, std::string_view field,
                                const Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const double expand, reader.Number(field, 1e-3, 1e3, 1.0));
  const auto width = static_cast<int64_t>(static_cast<double>(config.hidden_size) * expand);
  if (width == 0 || width % config.num_heads != 0) {
    return reader.Error(field, "hidden_size · " + std::string(field) + " = " +
                                   std::to_string(width) + " is not a multiple of num_heads");
  }
  return width / config.num_heads;
}

absl::Status ReadDecay(ConfigReader& reader, Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<double> decay, reader.Numbers("decay", 0, 1));
  if (decay.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(decay.size()) != config.num_heads) {
    return reader.Error("decay", "has " + std::to_string(decay.size()) +
                                     " numbers; wanted one for each of num_heads");
  }
  for (const double each : decay) {
    config.decay.push_back(static_cast<float>(each));
    if (config.decay.back() <= 0) return reader.Error("decay", "must be above 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(config.num_heads, reader.Int("num_heads", 1, kMaxHeads));
  FERMATA_ASSIGN_OR_RETURN(config.num_kv_heads,
                           reader.Int("num_kv_heads", 1, config.num_heads, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return reader.Error("num_kv_heads", "does not divide num_heads");
  }
  FERMATA_ASSIGN_OR_RETURN(config.head_k_dim, HeadDim(reader, "expand_k", config));
  FERMATA_ASSIGN_OR_RETURN(config.head_v_dim, HeadDim(reader, "expand_v", config));
  FERMATA_ASSIGN_OR_RETURN(config.feature_map, reader.String("feature_map", "elementwise_product"));
  FERMATA_ASSIGN_OR_RETURN(config.tie_feature_map_qk, reader.Bool("tie_feature_map_qk", false));
  FERMATA_ASSIGN_OR_RETURN(config.norm_q, reader.Bool("norm_q", false));
  FERMATA_ASSIGN_OR_RETURN(config.norm_k, reader.Bool("norm_k", false));
  FERMATA_ASSIGN_OR_RETURN(config.normalise, reader.Bool("norm_feature_map", false));
  FERMATA_ASSIGN_OR_RETURN(const std::string norm, reader.String("output_norm", "rmsnorm"));
  if (norm != "rmsnorm" && norm != "identity") {
    return reader.Error("output_norm", "\"" + norm + "\" is not known; rmsnorm and identity are");
  }
  config.output_norm = norm == "rmsnorm";
  FERMATA_ASSIGN_OR_RETURN(config.elementwise_affine, reader.Bool("elementwise_affine", true));
  FERMATA_ASSIGN_OR_RETURN(const double eps, reader.Number("norm_eps", 0, 1, 1e-6));
  config.norm_eps = static_cast<float>(eps);
  FERMATA_RETURN_IF_ERROR(ReadDecay(reader, config));
  FERMATA_ASSIGN_OR_RETURN(const bool convolve, reader.Bool("use_short_conv", false));
  FERMATA_ASSIGN_OR_RETURN(const int64_t taps, reader.Int("conv_size", 1, kMaxTaps, 4));
  FERMATA_ASSIGN_OR_RETURN(config.conv_bias, reader.Bool("conv_bias", false));
  config.taps = convolve ? taps : 0;
  FERMATA_ASSIGN_OR_RETURN(config.gate, reader.Bool("use_output_gate", false));
  reader.Ignore({"attn_mode"});  // Names the published kernels, which all compute the same.
  return config;
}

// The tensors of φ_k when it is tied to φ_q: a checkpoint may hold them under either's name.
class TiedWeights : public WeightSource {
 public:
  TiedWeights(WeightScope own, WeightScope other)
      : own_(std::move(own)), other_(std::move(other)) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    return own_.Has(name) ? own_.Read(name, shape) : other_.Read(name, shape);
  }
  bool Has(std::string_view name) const override { return own_.Has(name) || other_.Has(name); }

 private:
  WeightScope own_;
  WeightScope other_;
};

absl::StatusOr<std::unique_ptr<FeatureMap>> ReadFeatureMap(const MixerOptions& options,
                                                           std::string_view name,
                                                           const Config& config) {
  TiedWeights tied(options.weights.Child(name), options.weights.Child("feature_map_q"));
  return CreateFeatureMap(
      config.feature_map,
      {.head_dim = config.head_k_dim,
       .config = options.config,
       .weights = config.tie_feature_map_qk ? WeightScope(tied, "") : options.weights.Child(name)});
}

// Divides each row by (its sum + 1e-4), as the published layer's norm_q and norm_k do.
void NormaliseFeatures(float* x, int64_t rows, int64_t dim) {
  for (int64_t row = 0; row < rows; ++row) {
    float* features = x + row * dim;
    Scale(1.0f / (Sum(features, dim) + 1e-4f), features, dim);
  }
}

class LinearAttention : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(Config config, const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }

  int64_t kv_equivalent_floats_per_position() const override {
    return config_.num_kv_heads * (config_.head_k_dim + config_.head_v_dim);
  }

  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // φ(q), φ(k), v and the numerators of all rows: [rows, heads, dim].
  struct Rows {
    const float* q = nullptr;
    const float* k = nullptr;
    const float* v = nullptr;
    float* o = nullptr;
  };

  explicit LinearAttention(Config config) : config_(std::move(config)) {}

  float* Features(const FeatureMap& map, const float* x, int64_t rows, bool normalise,
                  Arena& arena) const;
  DecayRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;

  Config config_;
  StateLayout layout_;
  int64_t S_offset_ = 0;
  int64_t z_offset_ = 0;
  std::unique_ptr<FeatureMap> feature_map_q_;
  std::unique_ptr<FeatureMap> feature_map_k_;
  Projection q_, k_, v_;
  std::optional<Norm> norm_;
  std::optional<Linear> gate_;
  Linear output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> LinearAttention::Create(Config config,
                                                               const MixerOptions& options) {
  auto mixer = std::unique_ptr<LinearAttention>(new LinearAttention(std::move(config)));
  const Config& c = mixer->config_;
  const WeightScope& weights = options.weights;
  StateLayout& layout = mixer->layout_;
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_q_, ReadFeatureMap(options, "feature_map_q", c));
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_k_, ReadFeatureMap(options, "feature_map_k", c));
  const int64_t features = mixer->feature_map_q_->feature_dim();
  mixer->S_offset_ = layout.Add("S", {c.num_heads, features, c.head_v_dim});
  if (c.normalise) mixer->z_offset_ = layout.Add("z", {c.num_heads, features});

  ProjectionOptions projection = {
      .in = c.hidden_size, .taps = c.taps, .convolution_bias = c.conv_bias};
  projection.out = c.num_heads * c.head_k_dim;
  FERMATA_ASSIGN_OR_RETURN(mixer->q_, Projection::Read(weights, "q", projection, layout));
  projection.out = c.num_kv_heads * c.head_k_dim;
  FERMATA_ASSIGN_OR_RETURN(mixer->k_, Projection::Read(weights, "k", projection, layout));
  projection.out = c.num_kv_heads * c.head_v_dim;
  FERMATA_ASSIGN_OR_RETURN(mixer->v_, Projection::Read(weights, "v", projection, layout));

  const int64_t value_dim = c.num_heads * c.head_v_dim;
  if (c.output_norm) {
    FERMATA_ASSIGN_OR_RETURN(
        mixer->norm_,
        Norm::Read(weights, "norm",
                   {.dim = c.head_v_dim, .eps = c.norm_eps, .weight = c.elementwise_affine}));
  }
  if (c.gate) {
    FERMATA_ASSIGN_OR_RETURN(mixer->gate_,
                             Linear::Read(weights, "g_proj", value_dim, c.hidden_size));
  }
  FERMATA_ASSIGN_OR_RETURN(mixer->output_,
                           Linear::Read(weights, "o_proj", c.hidden_size, value_dim));
  return mixer;
}

float* LinearAttention::Features(const FeatureMap& map, const float* x, int64_t rows,
                                 bool normalise, Arena& arena) const {
  float* features = arena.Floats(rows * map.feature_dim());
  map.Apply(x, rows, features);
  if (normalise) NormaliseFeatures(features, rows, map.feature_dim());
  return features;
}

DecayRun LinearAttention::Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const {
  const Config& c = config_;
  const int64_t features = feature_map_q_->feature_dim();
  const int64_t kv_head = head / (c.num_heads / c.num_kv_heads);
  DecayRun run{.count = sequence.count,
               .key_dim = features,
               .value_dim = c.head_v_dim,
               .q_stride = c.num_heads * features,
               .k_stride = c.num_kv_heads * features,
               .v_stride = c.num_kv_heads * c.head_v_dim,
               .o_stride = c.num_heads * c.head_v_dim,
               .S = sequence.state + S_offset_ + head * features * c.head_v_dim};
  run.q = rows.q + sequence.begin * run.q_stride + head * features;
  run.k = rows.k + sequence.begin * run.k_stride + kv_head * features;
  run.v = rows.v + sequence.begin * run.v_stride + kv_head * c.head_v_dim;
  run.o = rows.o + sequence.begin * run.o_stride + head * c.head_v_dim;
  if (!c.decay.empty()) run.decay = &c.decay[head];
  if (c.normalise) run.z = sequence.state + z_offset_ + head * features;
  return run;
}

void LinearAttention::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                              float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  const int64_t features = feature_map_q_->feature_dim();
  float* q = Features(*feature_map_q_, q_.Apply(sequences, x, rows, arena), rows * c.num_heads,
                      c.norm_q, arena);
  Scale(1.0f / std::sqrt(static_cast<float>(features)), q, rows * c.num_heads * features);
  const float* k = Features(*feature_map_k_, k_.Apply(sequences, x, rows, arena),
                            rows * c.num_kv_heads, c.norm_k, arena);
  const float* v = v_.Apply(sequences, x, rows, arena);

  const int64_t size = rows * c.num_heads * c.head_v_dim;
  float* o = arena.Floats(size);
  const Rows all{.q = q, .k = k, .v = v, .o = o};
  const int64_t clamps = RunHeads(
      sequences, {.num_heads = c.num_heads, .state_floats = features * c.head_v_dim, .rows = rows},
      context.form,
      [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  if (context.counters != nullptr) context.counters->denominator_clamps += clamps;

  if (norm_.has_value()) norm_->Apply(o, rows * c.num_heads, o);
  if (gate_.has_value()) {
    ActivateAndMultiply(Activation::kSilu, gate_->Apply(x, rows, arena), o, size);
  }
  output_.Apply(o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateLinearAttention(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(Config config, ReadConfig(options));
  return LinearAttention::Create(std::move(config), options);
}

}  // namespace fermata
