#include "engine/mixers/softmax_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/kernels/block_product.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/norm.h"
#include "engine/kernels/rotary.h"
#include "engine/kernels/softmax_attention.h"
#include "engine/layers/heads.h"
#include "engine/layers/linear.h"
#include "engine/layers/norm.h"

namespace fermata {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 24;
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
constexpr float kHeadNormEps = 1e-5f;
// Queries that go through a block of the cache together, so that it is read once for all of them.
constexpr int64_t kQueryTile = 16;

struct Config {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  bool bias = false;
  bool head_norm = false;
  int64_t window = kUnbounded;
  std::optional<double> rope_theta;

  int64_t kv_dim() const { return num_kv_heads * head_dim; }
  bool windowed() const { return window != kUnbounded; }
};

absl::StatusOr<Config> ReadConfig(const MixerOptions& options) {
  ConfigReader& reader = *options.config;
  Config config;
  config.hidden_size = options.hidden_size;
  FERMATA_ASSIGN_OR_RETURN(config.num_heads, reader.Int("num_heads", 1, kMaxHeads));
  if (config.hidden_size % config.num_heads != 0) {
    return reader.Error("num_heads", "does not divide hidden_size");
  }
  config.head_dim = config.hidden_size / config.num_heads;
  FERMATA_ASSIGN_OR_RETURN(config.num_kv_heads,
                           reader.Int("num_kv_heads", 1, config.num_heads, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return reader.Error("num_kv_heads", "does not divide num_heads");
  }
  FERMATA_ASSIGN_OR_RETURN(config.bias, reader.Bool("qkv_bias", false));
  FERMATA_ASSIGN_OR_RETURN(config.head_norm, reader.Bool("qk_norm", false));
  if (reader.Has("window_size")) {
    FERMATA_ASSIGN_OR_RETURN(config.window, reader.Int("window_size", 1, kMaxWindow));
  } else {
    reader.Ignore({"window_size"});
  }
  if (reader.IsNull("rope_theta")) return config;
  FERMATA_ASSIGN_OR_RETURN(config.rope_theta, reader.Number("rope_theta", 1, 1e12, 10000.0));
  if (config.head_dim % 2 != 0) {
    return reader.Error("rope_theta", "needs an even hidden_size / num_heads");
  }
  return config;
}

// The way to q, k or v: a product, a bias and a norm of each head, the last two if there are any.
struct HeadProjection {
  Linear linear;
  std::optional<Norm> norm;  // Of a head.
};

absl::StatusOr<HeadProjection> ReadProjection(const WeightScope& weights, const std::string& name,
                                              int64_t width, const Config& config) {
  HeadProjection projection;
  FERMATA_ASSIGN_OR_RETURN(projection.linear, Linear::Read(weights, name + "_proj", width,
                                                           config.hidden_size, config.bias));
  if (config.head_norm && name != "v") {
    FERMATA_ASSIGN_OR_RETURN(
        projection.norm,
        Norm::Read(weights, name + "_norm", {.dim = config.head_dim, .eps = kHeadNormEps}));
  }
  return projection;
}

class SoftmaxAttention : public Mixer {
 public:
  static absl::StatusOr<std::unique_ptr<Mixer>> Create(const Config& config,
                                                       const MixerOptions& options);

  std::span<const StateBlock> state_blocks() const override { return layout_.blocks(); }
  int64_t cache_floats_per_position() const override {
    return config_.windowed() ? 0 : kv_equivalent_floats_per_position();
  }
  int64_t kv_equivalent_floats_per_position() const override { return 2 * config_.kv_dim(); }

  void Forward(std::span<const SequenceRows> sequences, const float* x, int64_t rows, float* out,
               const MixerContext& context) const override;

 private:
  // Of all rows, with k rotated and q rotated and scaled: [rows, heads, head_dim].
  struct Rows {
    const float* q = nullptr;
    const float* k = nullptr;
    const float* v = nullptr;
    float* o = nullptr;
  };
  // One sequence's run, as the heads that share one head of k and v see it.
  struct Group {
    int64_t position = 0;
    int64_t count = 0;
    const float* k = nullptr;  // Rows of kv_dim() floats.
    const float* v = nullptr;
    const float* q = nullptr;  // Rows of hidden_size floats; the group's heads one after another.
    float* o = nullptr;
    float* cache = nullptr;  // Rows of 2 · kv_dim() floats; v is kv_dim() floats after k.
  };

  explicit SoftmaxAttention(const Config& config) : config_(config) {}

  // Normalises, rotates and scales what the projection's product gave, in place.
  const float* SetPlaces(const HeadProjection& projection, std::span<const SequenceRows> sequences,
                         int64_t rows, float* projected) const;
  Group MakeGroup(const SequenceRows& sequence, int64_t kv_head, const Rows& rows) const;
  int64_t group_size() const { return config_.num_heads / config_.num_kv_heads; }
  // The first position that the token at `position` attends to.
  int64_t First(int64_t position) const {
    return config_.windowed() ? std::max<int64_t>(position - config_.window + 1, 0) : 0;
  }
  float* CacheRow(const Group& group, int64_t position) const {
    return group.cache + position % config_.window * 2 * config_.kv_dim();
  }
  void Store(const Group& group, int64_t t) const;
  void Recurrent(const Group& group) const;
  void AttendTile(const Group& group, int64_t begin, int64_t end) const;
  void Parallel(const Group& group) const;

  Config config_;
  HeadProjection q_, k_, v_;
  Linear output_;
  std::optional<Rotary> rotary_;
  StateLayout layout_;
};

absl::StatusOr<std::unique_ptr<Mixer>> SoftmaxAttention::Create(const Config& config,
                                                                const MixerOptions& options) {
  auto mixer = std::unique_ptr<SoftmaxAttention>(new SoftmaxAttention(config));
  const Config& c = mixer->config_;
  const WeightScope& weights = options.weights;
  FERMATA_ASSIGN_OR_RETURN(mixer->q_, ReadProjection(weights, "q", c.hidden_size, c));
  FERMATA_ASSIGN_OR_RETURN(mixer->k_, ReadProjection(weights, "k", c.kv_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(mixer->v_, ReadProjection(weights, "v", c.kv_dim(), c));
  FERMATA_ASSIGN_OR_RETURN(mixer->output_,
                           Linear::Read(weights, "o_proj", c.hidden_size, c.hidden_size));
  if (c.rope_theta.has_value()) mixer->rotary_.emplace(c.head_dim, *c.rope_theta);
  if (c.windowed()) mixer->layout_.Add("kv", {c.window, 2 * c.kv_dim()});
  return mixer;
}

const float* SoftmaxAttention::SetPlaces(const HeadProjection& projection,
                                         std::span<const SequenceRows> sequences, int64_t rows,
                                         float* projected) const {
  const int64_t width = projection.linear.out_features();
  const int64_t heads = width / config_.head_dim;
  if (projection.norm.has_value()) projection.norm->Apply(projected, rows * heads, projected);
  if (rotary_.has_value() && &projection != &v_) Rotate(*rotary_, sequences, heads, projected);
  if (&projection == &q_) {
    Scale(1.0f / std::sqrt(static_cast<float>(config_.head_dim)), projected, rows * width);
  }
  return projected;
}

SoftmaxAttention::Group SoftmaxAttention::MakeGroup(const SequenceRows& sequence, int64_t kv_head,
                                                    const Rows& rows) const {
  const int64_t kv_offset = kv_head * config_.head_dim;
  const int64_t kv = sequence.begin * config_.kv_dim() + kv_offset;
  const int64_t q = sequence.begin * config_.hidden_size + kv_offset * group_size();
  float* cache = config_.windowed() ? sequence.state : sequence.cache->data();
  return {.position = sequence.position,
          .count = sequence.count,
          .k = rows.k + kv,
          .v = rows.v + kv,
          .q = rows.q + q,
          .o = rows.o + q,
          .cache = cache + kv_offset};
}

void SoftmaxAttention::Store(const Group& group, int64_t t) const {
  float* row = CacheRow(group, group.position + t);
  std::copy_n(group.k + t * config_.kv_dim(), config_.head_dim, row);
  std::copy_n(group.v + t * config_.kv_dim(), config_.head_dim, row + config_.kv_dim());
}

void SoftmaxAttention::Recurrent(const Group& group) const {
  // A window's rows are overwritten as it moves, so its tokens go one at a time.
  const int64_t tile = config_.windowed() ? 1 : kQueryTile;
  for (int64_t begin = 0; begin < group.count; begin += tile) {
    const int64_t end = std::min(begin + tile, group.count);
    for (int64_t t = begin; t < end; ++t) Store(group, t);
    AttendTile(group, begin, end);
  }
}

// Tokens [begin, end) of the run, whose rows are in the cache. Blocks of the cache are cut at
// multiples of kAttentionBlock (and where the window wraps), whatever the tile, so that a token's
// bits do not depend on the others.
void SoftmaxAttention::AttendTile(const Group& group, int64_t begin, int64_t end) const {
  const int64_t heads = group_size();
  std::vector<OnlineSoftmax> attention;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = t * config_.hidden_size + head * config_.head_dim;
      attention.push_back({.q = group.q + at, .o = group.o + at, .dim = config_.head_dim});
    }
  }
  const int64_t last = group.position + end - 1;
  for (int64_t start = First(group.position + begin); start <= last;) {
    int64_t stop = std::min((start / kAttentionBlock + 1) * kAttentionBlock, last + 1);
    if (config_.windowed()) {
      stop = std::min(stop, (start / config_.window + 1) * config_.window);
    }
    KeyValueRows rows{.keys = CacheRow(group, start), .stride = 2 * config_.kv_dim()};
    rows.values = rows.keys + config_.kv_dim();
    for (int64_t t = begin; t < end; ++t) {
      rows.count = std::min(stop, group.position + t + 1) - start;
      if (rows.count <= 0) continue;
      for (int64_t head = 0; head < heads; ++head) {
        AttendBlock(rows, attention[(t - begin) * heads + head]);
      }
    }
    start = stop;
  }
  for (OnlineSoftmax& each : attention) FinishAttention(each);
}

void SoftmaxAttention::Parallel(const Group& group) const {
  const int64_t dim = config_.head_dim;
  const int64_t first = First(group.position);
  const int64_t end = group.position + group.count;
  const int64_t total = end - first;
  AlignedBuffer<float> keys(dim * total);  // kᵀ [dim, total]
  AlignedBuffer<float> values(total * dim);
  for (int64_t position = first; position < end; ++position) {
    const int64_t t = position - group.position;
    const float* cached = t < 0 ? CacheRow(group, position) : nullptr;
    const float* k = t < 0 ? cached : group.k + t * config_.kv_dim();
    const float* v = t < 0 ? cached + config_.kv_dim() : group.v + t * config_.kv_dim();
    Transpose(k, dim, 1, dim, keys.data() + (position - first), total);
    std::copy_n(v, dim, values.data() + (position - first) * dim);
  }
  for (int64_t head = 0; head < group_size(); ++head) {
    AlignedBuffer<float> scores(group.count * total);
    MultiplyAccumulate({.a = group.q + head * dim,
                        .a_stride = config_.hidden_size,
                        .b = keys.data(),
                        .b_stride = total,
                        .c = scores.data(),
                        .c_stride = total,
                        .rows = group.count,
                        .inner = dim,
                        .columns = total});
    for (int64_t t = 0; t < group.count; ++t) {
      const int64_t now = group.position + t;
      float* row = scores.data() + t * total;
      std::fill(row, row + (First(now) - first), -std::numeric_limits<float>::infinity());
      std::fill(row + (now + 1 - first), row + total, -std::numeric_limits<float>::infinity());
      std::fill_n(group.o + t * config_.hidden_size + head * dim, dim, 0.0f);
    }
    Softmax(scores.data(), group.count, total);
    MultiplyAccumulate({.a = scores.data(),
                        .a_stride = total,
                        .b = values.data(),
                        .b_stride = dim,
                        .c = group.o + head * dim,
                        .c_stride = config_.hidden_size,
                        .rows = group.count,
                        .inner = total,
                        .columns = dim});
  }
  for (int64_t t = 0; t < group.count; ++t) Store(group, t);
}

void SoftmaxAttention::Forward(std::span<const SequenceRows> sequences, const float* x,
                               int64_t rows, float* out, const MixerContext& context) const {
  Arena& arena = *context.arena;
  const Arena::Scope scope(arena);
  LinearGroup inputs(rows, arena);
  float* q = inputs.Add(q_.linear, x);
  float* k = inputs.Add(k_.linear, x);
  float* v = inputs.Add(v_.linear, x);
  inputs.Run();
  const Rows all{.q = SetPlaces(q_, sequences, rows, q),
                 .k = SetPlaces(k_, sequences, rows, k),
                 .v = SetPlaces(v_, sequences, rows, v),
                 .o = arena.Floats(rows * config_.hidden_size)};
  int64_t work = 0;
  for (const SequenceRows& sequence : sequences) {
    const int64_t end = sequence.position + sequence.count;
    work += sequence.count * (end - First(end - 1)) * config_.head_dim * group_size();
    if (!config_.windowed()) sequence.cache->resize(end * cache_floats_per_position());
  }
  // Heads go outermost, so that every thread gets its share of a long sequence.
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  ParallelFor(
      config_.num_kv_heads * num_sequences, work / num_sequences, [&](int64_t begin, int64_t end) {
        for (int64_t pair = begin; pair < end; ++pair) {
          const Group group = MakeGroup(sequences[pair % num_sequences], pair / num_sequences, all);
          if (context.form == Form::kParallel) {
            Parallel(group);
          } else {
            Recurrent(group);
          }
        }
      });
  output_.Apply(all.o, rows, out);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> CreateSoftmaxAttention(const MixerOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(const Config config, ReadConfig(options));
  return SoftmaxAttention::Create(config, options);
}

}  // namespace fermata
