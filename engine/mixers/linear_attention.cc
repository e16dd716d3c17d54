#include "engine/mixers/linear_attention.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/features/feature_map.h"
#include "engine/kernels/decay_rule.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/layers/heads.h"
#include "engine/layers/projection.h"
#include "engine/layers/recurrence.h"

namespace fermata {
namespace {

// What making a feature is worth in multiply-adds (base/parallel.h).
constexpr int64_t kFeatureWork = 32;

struct Config {
  int64_t hidden_size = 0;
  HeadSizes heads;
  std::string feature_map;
  bool tie_feature_map_qk = false;
  bool norm_q = false;
  bool norm_k = false;
  bool normalise = false;
  std::vector<float> decay;  // One per head, or none.
  ConvolutionConfig convolution;
  HeadOutputOptions output;
};

absl::Status ReadDecay(ConfigReader& reader, Config& config) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<double> decay, reader.Numbers("decay", 0, 1));
  if (decay.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(decay.size()) != config.heads.num_heads) {
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
  FERMATA_ASSIGN_OR_RETURN(config.heads,
                           ReadHeadSizes(reader, config.hidden_size, {.num_heads = 4}));
  FERMATA_ASSIGN_OR_RETURN(config.feature_map, reader.String("feature_map", "elementwise_product"));
  FERMATA_ASSIGN_OR_RETURN(config.tie_feature_map_qk, reader.Bool("tie_feature_map_qk", false));
  FERMATA_ASSIGN_OR_RETURN(config.norm_q, reader.Bool("norm_q", false));
  FERMATA_ASSIGN_OR_RETURN(config.norm_k, reader.Bool("norm_k", false));
  FERMATA_ASSIGN_OR_RETURN(config.normalise, reader.Bool("norm_feature_map", false));
  FERMATA_ASSIGN_OR_RETURN(const size_t norm,
                           reader.Choice("output_norm", {"rmsnorm", "identity"}));
  FERMATA_ASSIGN_OR_RETURN(config.output, ReadHeadOutput(reader, "use_output_gate",
                                                         {.hidden_size = options.hidden_size,
                                                          .num_heads = config.heads.num_heads,
                                                          .head_dim = config.heads.value_dim}));
  if (norm == 0) config.output.norm_names = {"norm"};
  FERMATA_ASSIGN_OR_RETURN(config.output.norm_weight, ReadElementwiseAffine(reader));
  FERMATA_RETURN_IF_ERROR(ReadDecay(reader, config));
  FERMATA_ASSIGN_OR_RETURN(config.convolution, ReadConvolution(reader, false));
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
      {.head_dim = config.heads.key_dim,
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

  int64_t kv_equivalent_floats_per_position() const override { return config_.heads.kv_floats(); }

  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  explicit LinearAttention(Config config) : config_(std::move(config)) {}

  // φ of `rows` heads of q or k, in scratch memory; that of q is scaled.
  const float* Features(const FeatureMap& map, const float* x, int64_t rows, bool normalise,
                        Arena& arena) const;
  DecayRun Run(const SequenceRows& sequence, int64_t head, const HeadRows& rows) const;

  Config config_;
  HeadSizes state_sizes_;  // Its key_dim is that of features.
  StateLayout layout_;
  int64_t S_offset_ = 0;
  int64_t z_offset_ = 0;
  std::unique_ptr<FeatureMap> feature_map_q_;
  std::unique_ptr<FeatureMap> feature_map_k_;
  QkvProjection qkv_;
  HeadOutput output_;
};

absl::StatusOr<std::unique_ptr<Mixer>> LinearAttention::Create(Config config,
                                                               const MixerOptions& options) {
  auto mixer = std::unique_ptr<LinearAttention>(new LinearAttention(std::move(config)));
  const Config& c = mixer->config_;
  const WeightScope& weights = options.weights;
  StateLayout& layout = mixer->layout_;
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_q_, ReadFeatureMap(options, "feature_map_q", c));
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_k_, ReadFeatureMap(options, "feature_map_k", c));
  const auto [num_heads, num_kv_heads, key_dim, value_dim] = c.heads;
  const int64_t features = mixer->feature_map_q_->feature_dim();
  mixer->state_sizes_ = c.heads;
  mixer->state_sizes_.key_dim = features;
  mixer->S_offset_ = layout.Add("S", {num_heads, features, value_dim});
  if (c.normalise) mixer->z_offset_ = layout.Add("z", {num_heads, features});
  FERMATA_ASSIGN_OR_RETURN(mixer->qkv_, QkvProjection::Read(weights,
                                                            {.in = c.hidden_size,
                                                             .q = num_heads * key_dim,
                                                             .k = num_kv_heads * key_dim,
                                                             .v = num_kv_heads * value_dim,
                                                             .convolution = c.convolution},
                                                            layout));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_, HeadOutput::Read(weights, c.output));
  return mixer;
}

const float* LinearAttention::Features(const FeatureMap& map, const float* x, int64_t rows,
                                       bool normalise, Arena& arena) const {
  float* features = arena.Floats(rows * map.feature_dim());
  const int64_t dim = map.feature_dim();
  ParallelFor(rows, kFeatureWork * dim, [&](int64_t begin, int64_t end) {
    float* some = features + begin * dim;
    map.Apply(x + begin * config_.heads.key_dim, end - begin, some);
    if (normalise) NormaliseFeatures(some, end - begin, dim);
    if (&map != feature_map_q_.get()) return;
    Scale(1.0f / std::sqrt(static_cast<float>(dim)), some, (end - begin) * dim);
  });
  return features;
}

DecayRun LinearAttention::Run(const SequenceRows& sequence, int64_t head,
                              const HeadRows& rows) const {
  DecayRun run = MakeRun<DecayRun>(sequence, head, state_sizes_, rows, S_offset_);
  if (!config_.decay.empty()) run.decay = &config_.decay[head];
  if (config_.normalise) run.z = sequence.state + z_offset_ + head * run.key_dim;
  return run;
}

void LinearAttention::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                              float* out, const MixerContext& context) const {
  const Config& c = config_;
  const auto [num_heads, num_kv_heads, features, value_dim] = state_sizes_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* gate = output_.AddGate(x, inputs);
  const auto [q, k, v] = qkv_.Apply(sequences, x, rows, arena, inputs);
  const float* features_q = Features(*feature_map_q_, q, rows * num_heads, c.norm_q, arena);
  const float* features_k = Features(*feature_map_k_, k, rows * num_kv_heads, c.norm_k, arena);

  const HeadRows all{
      .q = features_q, .k = features_k, .v = v, .o = arena.Floats(rows * num_heads * value_dim)};
  const int64_t clamps = RunHeads(
      sequences, {.num_heads = num_heads, .state_floats = features * value_dim, .rows = rows},
      context.form,
      [&](const SequenceRows& sequence, int64_t head) { return Run(sequence, head, all); });
  if (context.counters != nullptr) context.counters->denominator_clamps += clamps;
  output_.Apply(gate, rows, all.o, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateLinearAttention(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(Config config, ReadConfig(options));
  return LinearAttention::Create(std::move(config), options);
}

}  // namespace fermata
