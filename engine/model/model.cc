#include "engine/model/model.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/mapped_file.h"
#include "engine/base/status.h"
#include "engine/kernels/matmul.h"
#include "engine/model/architecture.h"
#include "engine/model/checkpoint.h"
#include "engine/model/layers.h"
#include "engine/model/layout.h"

namespace fermata {
namespace {

// Far more than any state that is worth keeping; a config that asks for more is wrong.
constexpr int64_t kMaxStateFloats = int64_t{1} << 32;
constexpr size_t kMaxNamesInRemark = 8;

// Passes weights on, counts their numbers once each, and notes how matrices are held.
class CountedWeights : public WeightSource {
 public:
  explicit CountedWeights(WeightSource& source) : source_(source) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    auto values = source_.Read(name, shape);
    if (values.ok()) Count(name, shape);
    return values;
  }
  bool Has(std::string_view name) const override { return source_.Has(name); }
  WeightType matrix_type(std::string_view name) const override {
    const WeightType type = source_.matrix_type(name);
    held_.insert(WeightTypeName(type));
    return type;
  }
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(std::string_view name,
                                                         std::span<const int64_t> shape) override {
    auto blocks = source_.ReadBlocks(name, shape);
    if (blocks.ok() && blocks->has_value()) {
      Count(name, shape);
      held_.insert((*blocks)->type == BlockType::kQ8_0 ? "q8_0" : "q4_0");
    }
    return blocks;
  }
  int64_t parameters() const { return parameters_; }
  std::string held() const {
    std::string names;
    for (const std::string_view name : held_) (names += names.empty() ? "" : "+") += name;
    return names;
  }

 private:
  void Count(std::string_view name, std::span<const int64_t> shape) {
    if (!seen_.emplace(name).second) return;
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    parameters_ += size;
  }

  WeightSource& source_;
  std::set<std::string, std::less<>> seen_;
  int64_t parameters_ = 0;
  mutable std::set<std::string_view> held_;
};

absl::StatusOr<std::vector<int32_t>> TokenIds(ConfigReader& config, std::string_view field,
                                              int64_t vocab_size) {
  FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, config.Ints(field, 0, vocab_size - 1));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

std::string UnusedRemark(const std::vector<std::string>& names) {
  std::string remark =
      absl::StrCat(names.size(), names.size() == 1 ? " tensor is" : " tensors are", " not used:");
  for (size_t i = 0; i < std::min(names.size(), kMaxNamesInRemark); ++i) {
    absl::StrAppend(&remark, i == 0 ? " " : ", ", Quoted(names[i]));
  }
  if (names.size() > kMaxNamesInRemark) {
    absl::StrAppend(&remark, " and ", names.size() - kMaxNamesInRemark, " more");
  }
  return remark;
}

std::string ConfigPath(const std::string& directory) {
  return (std::filesystem::path(directory) / "config.json").string();
}

// The directory's config.json, or nullopt where there is none.
absl::StatusOr<std::optional<ConfigReader>> ReadConfigFile(const std::string& directory) {
  const std::string path = ConfigPath(directory);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  FERMATA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  FERMATA_ASSIGN_OR_RETURN(ConfigReader config, ConfigReader::Parse(text, path));
  return config;
}

void AddUnreadFields(const ConfigReader& reader, std::vector<std::string>& remarks) {
  for (const std::string& field : reader.Unread()) {
    remarks.push_back(absl::StrCat(reader.source(), ": ", Quoted(field), " is not read"));
  }
}

std::string DirectoryName(const std::string& directory) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(directory, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

void SequenceState::Clear() {
  std::ranges::fill(fixed, 0.0f);
  for (std::vector<float>& cache : caches) cache.clear();
  position = 0;
}

int64_t SequenceState::cache_bytes() const {
  size_t floats = 0;
  for (const std::vector<float>& cache : caches) floats += cache.size();
  return static_cast<int64_t>(floats * sizeof(float));
}

Model::Model() : layers_(std::make_unique<Layers>()) {}
Model::~Model() = default;

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& path,
                                                   const LoadOptions& options) {
  FERMATA_ASSIGN_OR_RETURN(std::optional<ConfigReader> file, ReadConfigFile(path));
  FERMATA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(path));
  checkpoint->HoldMatricesAs(options.weights);
  checkpoint->ReportTo(options.progress);
  const Layout* layout = FindLayout(*checkpoint, file.has_value() ? &*file : nullptr);
  if (!file.has_value() && layout == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        ConfigPath(path), ": missing, and the tensors' names are of no layout that does without"));
  }
  std::optional<ConfigReader> made;  // The canonical config, where the file's is another.
  if (layout != nullptr && layout->make_config != nullptr) {
    FERMATA_ASSIGN_OR_RETURN(made,
                             layout->make_config(*checkpoint, file.has_value() ? &*file : nullptr));
  }
  ConfigReader& config = made.has_value() ? *made : *file;
  LayoutWeights weights(*checkpoint,
                        layout == nullptr ? std::span<const StoredName>() : layout->names);
  FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Create(config, weights));
  FERMATA_RETURN_IF_ERROR(model->ReadTiedHead(weights));
  ModelInfo& info = model->info_;
  info.name = DirectoryName(path);
  info.layout = layout == nullptr ? "" : std::string(layout->name);
  info.fingerprint = checkpoint->Fingerprint(config.Canonical());
  info.weights_dtype = checkpoint->dtype();
  info.dtypes = checkpoint->dtypes();
  if (made.has_value() && file.has_value()) AddUnreadFields(*file, info.remarks);
  std::vector<std::string> unused = checkpoint->Unused();
  if (layout != nullptr) {
    std::erase_if(unused, [layout](const std::string& name) {
      return std::ranges::any_of(
          layout->unused, [&name](std::string_view pattern) { return FitsPattern(name, pattern); });
    });
  }
  if (!unused.empty()) info.remarks.push_back(UnusedRemark(unused));
  return model;
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(ConfigReader& config, WeightSource& weights) {
  std::unique_ptr<Model> model(new Model());
  FERMATA_RETURN_IF_ERROR(model->Build(config, weights));
  FERMATA_RETURN_IF_ERROR(model->AddState());
  return model;
}

absl::Status Model::Build(ConfigReader& config, WeightSource& source) {
  FERMATA_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(config));
  const int64_t hidden = plan.hidden_size;
  const int64_t vocab = plan.vocab_size;
  FERMATA_ASSIGN_OR_RETURN(info_.family, config.String("model_type"));
  FERMATA_ASSIGN_OR_RETURN(info_.bos_token_ids, TokenIds(config, "bos_token_id", vocab));
  FERMATA_ASSIGN_OR_RETURN(info_.eos_token_ids, TokenIds(config, "eos_token_id", vocab));
  // Published directories leave the head out when it is the embeddings, and not all say so.
  FERMATA_ASSIGN_OR_RETURN(const bool tied,
                           config.Bool("tie_word_embeddings", !source.Has(plan.head)));
  info_.num_layers = static_cast<int64_t>(plan.blocks.size());
  info_.hidden_size = hidden;
  info_.vocab_size = vocab;

  CountedWeights counted(source);
  const WeightScope weights(counted, "");
  layers_->hidden_size = hidden;
  layers_->vocab_size = vocab;
  FERMATA_ASSIGN_OR_RETURN(layers_->embeddings, weights.Read(plan.embeddings, {vocab, hidden}));
  if (plan.embedding_norm.has_value()) {
    const auto& [name, options] = *plan.embedding_norm;
    FERMATA_ASSIGN_OR_RETURN(layers_->embedding_norm, Norm::Read(weights, name, options));
  }
  for (const BlockPlan& block_plan : plan.blocks) {
    const int64_t layer = static_cast<int64_t>(layers_->blocks.size());
    const WeightScope scope(counted, absl::StrCat(plan.layers, layer, "."));
    Layers::Block& block = layers_->blocks.emplace_back();
    block.scale = block_plan.scale;
    for (const SublayerPlan& step : block_plan.sublayers) {
      Layers::Sublayer& sublayer = block.sublayers.emplace_back();
      sublayer.name = absl::StrCat("layers.", layer, ".", step.name);
      FERMATA_ASSIGN_OR_RETURN(sublayer.norm, Norm::Read(scope, step.norm.name, step.norm.options));
      FERMATA_ASSIGN_OR_RETURN(sublayer.mixer,
                               CreateMixer(step.mixer, {.hidden_size = hidden,
                                                        .layer = layer,
                                                        .config = step.config,
                                                        .weights = scope.Child(step.name)}));
    }
  }
  FERMATA_ASSIGN_OR_RETURN(layers_->norm, Norm::Read(weights, plan.norm.name, plan.norm.options));
  if (tied) {
    layers_->head = PackedMatrix(layers_->embeddings.data(), vocab, hidden,
                                 weights.matrix_type(plan.embeddings));
    layers_->tied_head = plan.head;
  } else {
    FERMATA_ASSIGN_OR_RETURN(layers_->head, ReadMatrix(weights, plan.head, vocab, hidden));
  }
  info_.parameters = counted.parameters();
  info_.held_weights = counted.held();

  AddUnreadFields(config, info_.remarks);
  for (const auto& nested : plan.nested) AddUnreadFields(*nested, info_.remarks);
  return absl::OkStatus();
}

// Some authors store the head although it is the embeddings.
absl::Status Model::ReadTiedHead(WeightSource& weights) {
  const std::string& head = layers_->tied_head;
  if (head.empty() || !weights.Has(head)) return absl::OkStatus();
  FERMATA_ASSIGN_OR_RETURN(
      const AlignedBuffer<float> stored,
      WeightScope(weights, "").Read(head, {info_.vocab_size, info_.hidden_size}));
  info_.parameters += static_cast<int64_t>(stored.size());
  if (!std::ranges::equal(stored, layers_->embeddings)) {
    info_.remarks.push_back(absl::StrCat(
        Quoted(head), " is not the embeddings that the config ties it to, and is not used"));
  }
  return absl::OkStatus();
}

absl::Status Model::AddState() {
  int64_t floats = 0;
  for (Layers::Block& block : layers_->blocks) {
    for (Layers::Sublayer& sublayer : block.sublayers) {
      const Mixer& mixer = *sublayer.mixer;
      sublayer.state_offset = floats;
      for (const StateBlock& state : mixer.state_blocks()) {
        state_blocks_.push_back(
            {absl::StrCat(sublayer.name, ".", state.name), state.shape, floats});
        floats += state.size();
        if (floats > kMaxStateFloats) {
          return absl::InvalidArgumentError(
              absl::StrCat(sublayer.name, ": a state of more than ", kMaxStateFloats, " numbers"));
        }
      }
      layers_->value_residual_floats =
          std::max(layers_->value_residual_floats, mixer.value_residual_floats());
      if (mixer.cache_floats_per_position() > 0) sublayer.cache = layers_->num_caches++;
      info_.kv_equivalent_bytes_per_token +=
          mixer.kv_equivalent_floats_per_position() * static_cast<int64_t>(sizeof(float));
    }
  }
  layers_->state_floats = floats;
  info_.state_bytes = floats * static_cast<int64_t>(sizeof(float));
  info_.fixed_size_state = layers_->num_caches == 0;
  return absl::OkStatus();
}

SequenceState Model::NewState() const {
  SequenceState state;
  state.fixed = AlignedBuffer<float>(layers_->state_floats);
  state.caches.resize(layers_->num_caches);
  return state;
}

}  // namespace fermata
