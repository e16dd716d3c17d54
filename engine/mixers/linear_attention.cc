#include "engine/mixers/linear_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/features/feature_map.h"
#include "engine/kernels/convolution.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/linear_attention.h"
#include "engine/kernels/matmul.h"
#include "engine/kernels/norm.h"

namespace fermata {
namespace {

constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxTaps = 64;
// An element of the state is read and written for one product with k and one with q: as long as
// that takes for this many multiply-adds from the cache.
constexpr int64_t kStateWork = 8;

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
  std::vector<float> decay;  // One per head.
  int64_t taps = 0;          // 0: no convolutions.
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
  config.decay.assign(config.num_heads, 1.0f);
  if (decay.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(decay.size()) != config.num_heads) {
    return reader.Error("decay", "has " + std::to_string(decay.size()) +
                                     " numbers; wanted one for each of num_heads");
  }
  for (int64_t head = 0; head < config.num_heads; ++head) {
    config.decay[head] = static_cast<float>(decay[head]);
    if (config.decay[head] <= 0) return reader.Error("decay", "must be above 0");
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
  FERMATA_ASSIGN_OR_RETURN(const bool conv_bias, reader.Bool("conv_bias", false));
  if (convolve && conv_bias) return reader.Error("conv_bias", "convolutions have no bias here");
  config.taps = convolve ? taps : 0;
  FERMATA_ASSIGN_OR_RETURN(config.gate, reader.Bool("use_output_gate", false));
  reader.Ignore({"attn_mode"});  // Names the published kernels, which all compute the same.
  return config;
}

// The way to q, k or v: a product, then a convolution and SiLU if there is one.
struct Projection {
  PackedMatrix matrix;
  AlignedBuffer<float> taps;  // [taps, width]; empty for no convolution.
  int64_t state_offset = 0;   // Of the convolution's state, in the mixer's.
};

absl::StatusOr<Projection> ReadProjection(const WeightScope& weights, const std::string& name,
                                          int64_t width, const Config& config) {
  Projection projection;
  FERMATA_ASSIGN_OR_RETURN(projection.matrix,
                           ReadMatrix(weights, name + "_proj.weight", width, config.hidden_size));
  if (config.taps == 0) return projection;
  FERMATA_ASSIGN_OR_RETURN(const AlignedBuffer<float> stored,
                           weights.Read(name + "_conv1d.weight", {width, 1, config.taps}));
  projection.taps = AlignedBuffer<float>(width * config.taps);
  for (int64_t tap = 0; tap < config.taps; ++tap) {
    for (int64_t i = 0; i < width; ++i) {
      projection.taps[tap * width + i] = stored[i * config.taps + tap];
    }
  }
  return projection;
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

  std::span<const StateBlock> state_blocks() const override { return blocks_; }

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

  void AddBlocks();
  const float* Project(const Projection& projection, std::span<const SequenceRows> sequences,
                       const float* x, int64_t rows, Arena& arena) const;
  float* Features(const FeatureMap& map, const float* x, int64_t rows, bool normalise,
                  Arena& arena) const;
  LinearAttentionRun Run(const SequenceRows& sequence, int64_t head, const Rows& rows) const;
  int64_t Mix(std::span<const SequenceRows> sequences, const Rows& rows, int64_t count,
              Form form) const;

  Config config_;
  Projection q_, k_, v_;
  std::unique_ptr<FeatureMap> feature_map_q_;
  std::unique_ptr<FeatureMap> feature_map_k_;
  AlignedBuffer<float> norm_;  // Empty: no weights.
  PackedMatrix gate_;
  PackedMatrix output_;
  std::vector<StateBlock> blocks_;
  int64_t z_offset_ = 0;  // In the state.
};

absl::StatusOr<std::unique_ptr<Mixer>> LinearAttention::Create(Config config,
                                                               const MixerOptions& options) {
  auto mixer = std::unique_ptr<LinearAttention>(new LinearAttention(std::move(config)));
  const Config& c = mixer->config_;
  const WeightScope& weights = options.weights;
  FERMATA_ASSIGN_OR_RETURN(mixer->q_, ReadProjection(weights, "q", c.num_heads * c.head_k_dim, c));
  FERMATA_ASSIGN_OR_RETURN(mixer->k_,
                           ReadProjection(weights, "k", c.num_kv_heads * c.head_k_dim, c));
  FERMATA_ASSIGN_OR_RETURN(mixer->v_,
                           ReadProjection(weights, "v", c.num_kv_heads * c.head_v_dim, c));
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_q_, ReadFeatureMap(options, "feature_map_q", c));
  FERMATA_ASSIGN_OR_RETURN(mixer->feature_map_k_, ReadFeatureMap(options, "feature_map_k", c));
  if (c.output_norm && c.elementwise_affine) {
    FERMATA_ASSIGN_OR_RETURN(mixer->norm_, weights.Read("norm.weight", {c.head_v_dim}));
  }
  const int64_t value_dim = c.num_heads * c.head_v_dim;
  if (c.gate) {
    FERMATA_ASSIGN_OR_RETURN(mixer->gate_,
                             ReadMatrix(weights, "g_proj.weight", value_dim, c.hidden_size));
  }
  FERMATA_ASSIGN_OR_RETURN(mixer->output_,
                           ReadMatrix(weights, "o_proj.weight", c.hidden_size, value_dim));
  mixer->AddBlocks();
  return mixer;
}

void LinearAttention::AddBlocks() {
  const int64_t features = feature_map_q_->feature_dim();
  blocks_.push_back({"S", {config_.num_heads, features, config_.head_v_dim}});
  z_offset_ = StateFloats(*this);
  if (config_.normalise) blocks_.push_back({"z", {config_.num_heads, features}});
  if (config_.taps == 0) return;
  const std::pair<const char*, Projection*> convolutions[] = {
      {"q_conv", &q_}, {"k_conv", &k_}, {"v_conv", &v_}};
  for (const auto& [name, projection] : convolutions) {
    projection->state_offset = StateFloats(*this);
    blocks_.push_back({name, {config_.taps - 1, projection->matrix.out_features()}});
  }
}

const float* LinearAttention::Project(const Projection& projection,
                                      std::span<const SequenceRows> sequences, const float* x,
                                      int64_t rows, Arena& arena) const {
  const int64_t width = projection.matrix.out_features();
  float* projected = arena.Floats(rows * width);
  projection.matrix.Multiply(x, rows, projected);
  if (config_.taps == 0) return projected;
  float* convolved = arena.Floats(rows * width);
  const CausalConvolution convolution{
      .weight = projection.taps.data(), .taps = config_.taps, .dim = width};
  const auto count = static_cast<int64_t>(sequences.size());
  const int64_t work = rows * width * config_.taps / count;
  ParallelFor(count, work, [&](int64_t begin, int64_t end) {
    for (const SequenceRows& sequence : sequences.subspan(begin, end - begin)) {
      const int64_t at = sequence.begin * width;
      Convolve(convolution, projected + at, sequence.count,
               sequence.state + projection.state_offset, convolved + at);
      Silu(convolved + at, convolved + at, sequence.count * width);
    }
  });
  return convolved;
}

float* LinearAttention::Features(const FeatureMap& map, const float* x, int64_t rows,
                                 bool normalise, Arena& arena) const {
  float* features = arena.Floats(rows * map.feature_dim());
  map.Apply(x, rows, features);
  if (normalise) NormaliseFeatures(features, rows, map.feature_dim());
  return features;
}

LinearAttentionRun LinearAttention::Run(const SequenceRows& sequence, int64_t head,
                                        const Rows& rows) const {
  const Config& c = config_;
  const int64_t features = feature_map_q_->feature_dim();
  const int64_t kv_head = head / (c.num_heads / c.num_kv_heads);
  LinearAttentionRun run{.count = sequence.count,
                         .feature_dim = features,
                         .value_dim = c.head_v_dim,
                         .decay = c.decay[head],
                         .q_stride = c.num_heads * features,
                         .k_stride = c.num_kv_heads * features,
                         .v_stride = c.num_kv_heads * c.head_v_dim,
                         .o_stride = c.num_heads * c.head_v_dim,
                         .S = sequence.state + head * features * c.head_v_dim};
  run.q = rows.q + sequence.begin * run.q_stride + head * features;
  run.k = rows.k + sequence.begin * run.k_stride + kv_head * features;
  run.v = rows.v + sequence.begin * run.v_stride + kv_head * c.head_v_dim;
  run.o = rows.o + sequence.begin * run.o_stride + head * c.head_v_dim;
  if (c.normalise) run.z = sequence.state + z_offset_ + head * features;
  return run;
}

int64_t Compute(const LinearAttentionRun& run, int64_t position, Form form) {
  switch (form) {
    case Form::kRecurrent:
      return LinearAttentionRecurrent(run);
    case Form::kChunkwise: {
      AlignedBuffer<float> scratch(LinearAttentionChunkScratch(run, kChunkTokens));
      return LinearAttentionChunkwise(run, position, kChunkTokens, scratch.data());
    }
    case Form::kParallel: {
      AlignedBuffer<float> scratch(LinearAttentionParallelScratch(run));
      return LinearAttentionParallel(run, scratch.data());
    }
  }
  return 0;
}

int64_t LinearAttention::Mix(std::span<const SequenceRows> sequences, const Rows& rows,
                             int64_t count, Form form) const {
  // Heads go outermost, so that every thread gets its share of a long sequence.
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  const int64_t pairs = config_.num_heads * num_sequences;
  const int64_t work =
      kStateWork * feature_map_q_->feature_dim() * config_.head_v_dim * count / num_sequences;
  std::atomic<int64_t> clamps = 0;
  ParallelFor(pairs, work, [&](int64_t begin, int64_t end) {
    int64_t clamped = 0;
    for (int64_t pair = begin; pair < end; ++pair) {
      const SequenceRows& sequence = sequences[pair % num_sequences];
      clamped += Compute(Run(sequence, pair / num_sequences, rows), sequence.position, form);
    }
    clamps += clamped;
  });
  return clamps;
}

void LinearAttention::Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows,
                              float* out, const MixerContext& context) const {
  const Config& c = config_;
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  const int64_t features = feature_map_q_->feature_dim();
  float* q = Features(*feature_map_q_, Project(q_, sequences, x, rows, arena), rows * c.num_heads,
                      c.norm_q, arena);
  Scale(1.0f / std::sqrt(static_cast<float>(features)), q, rows * c.num_heads * features);
  const float* k = Features(*feature_map_k_, Project(k_, sequences, x, rows, arena),
                            rows * c.num_kv_heads, c.norm_k, arena);
  const float* v = Project(v_, sequences, x, rows, arena);

  const int64_t size = rows * c.num_heads * c.head_v_dim;
  float* o = arena.Floats(size);
  const int64_t clamps = Mix(sequences, {.q = q, .k = k, .v = v, .o = o}, rows, context.form);
  if (context.counters != nullptr) context.counters->denominator_clamps += clamps;

  if (c.output_norm) {
    RmsNorm(o, norm_.empty() ? nullptr : norm_.data(), rows * c.num_heads, c.head_v_dim, c.norm_eps,
            o);
  }
  if (c.gate) {
    float* gate = arena.Floats(size);
    gate_.Multiply(x, rows, gate);
    SiluMultiply(gate, o, o, size);
  }
  output_.Multiply(o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateLinearAttention(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(Config config, ReadConfig(options));
  return LinearAttention::Create(std::move(config), options);
}

}  // namespace fermata
