#include "tests/engine/model/cases.h"

#include <iostream>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/model/checkpoint.h"
#include "engine/model/layout.h"
#include "tests/files.h"

namespace fermata {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

// How an expected tensor becomes a block.
enum class Arrange {
  kAsIs,
  kMatrix,  // [heads, key, value], or [heads, value, key] by the case.
  kTaps,    // [channels, taps] to [taps - 1, channels]: the oldest input is no longer needed.
};

struct StateRow {
  std::string tensor;
  std::string suffix;
  bool feed_forward;
  Arrange arrange;
};

// "state.layers.N.<tensor>". The conv_state of RWKV in flash-linear-attention is its token shift.
const StateRow* FindRow(const Case& c, const std::string& tensor) {
  static const std::vector<StateRow> rows = {
      {"recurrent_state", "S", false, Arrange::kMatrix},
      {"recurrent_state.0", "S", false, Arrange::kMatrix},
      {"recurrent_state.1", "z", false, Arrange::kAsIs},
      {"att_kv", "S", false, Arrange::kMatrix},
      {"ssm_state", "S", false, Arrange::kMatrix},
      {"conv_state", "conv", false, Arrange::kTaps},
      {"conv_state.0", "q_conv", false, Arrange::kTaps},
      {"conv_state.1", "k_conv", false, Arrange::kTaps},
      {"conv_state.2", "v_conv", false, Arrange::kTaps},
      {"ffn_state", "shift", true, Arrange::kAsIs},
      {"att_x_prev", "shift", false, Arrange::kAsIs},
      {"ffn_x_prev", "shift", true, Arrange::kAsIs},
      {"wkv_aa", "num", false, Arrange::kAsIs},
      {"wkv_bb", "den", false, Arrange::kAsIs},
      {"wkv_pp", "max", false, Arrange::kAsIs},
  };
  static const StateRow token_shift = {"conv_state", "shift", false, Arrange::kAsIs};
  if (tensor == "conv_state" && c.family().starts_with("RWKV")) return &token_shift;
  for (const StateRow& row : rows) {
    if (row.tensor == tensor) return &row;
  }
  return nullptr;
}

// The Hugging Face models of RWKV keep all layers in one tensor, whose last axis they are.
std::vector<std::string> StackedTensors(const Case& c) {
  if (c.expected.contains("state.4")) {
    return {"ffn_x_prev", "att_x_prev", "wkv_aa", "wkv_bb", "wkv_pp"};
  }
  return {"att_x_prev", "att_kv", "ffn_x_prev"};
}

// Whether the reference keeps its matrices as [heads, value, key].
bool ValueFirst(const Case& c, const std::string& tensor) {
  if (tensor == "ssm_state") return true;
  const std::string layout = c.index.value("state_layout", "");
  if (layout.find("V,K") != std::string::npos) return true;
  if (layout.find("K,V") != std::string::npos) return false;
  const std::string family = c.family();
  return family == "GLA" || family == "Gated DeltaNet" ||
         (family.starts_with("RWKV-7") && tensor == "att_kv");
}

// [n, rows, columns] to [n, columns, rows].
std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t matrix = at / (rows * columns);
    const int64_t row = at / columns % rows;
    out[matrix * rows * columns + at % columns * rows + row] = values[i];
  }
  return out;
}

std::vector<float> Arranged(const Case& c, const StateRow& row, const Shape& shape,
                            const std::vector<float>& values) {
  if (row.arrange == Arrange::kAsIs) return values;
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape.back();
  if (row.arrange == Arrange::kMatrix) {
    return ValueFirst(c, row.tensor) ? Transposed(values, rows, columns) : values;
  }
  std::vector<float> taps = Transposed(values, rows, columns);
  taps.erase(taps.begin(), taps.begin() + rows);
  return taps;
}

void AddBlock(const Case& c, const std::string& name, int64_t layer, const std::string& tensor,
              const TestTensor& values, std::vector<ExpectedBlock>& blocks) {
  const StateRow* row = FindRow(c, tensor);
  if (row == nullptr) {
    std::cout << "not compared: " << c.name << ": " << name << "\n";
    return;
  }
  blocks.push_back({.tensor = name,
                    .layer = layer,
                    .suffix = row->suffix,
                    .feed_forward = row->feed_forward,
                    .values = Arranged(c, *row, values.shape, values.values)});
}

void AddStacked(const Case& c, std::vector<ExpectedBlock>& blocks) {
  const std::vector<std::string> tensors = StackedTensors(c);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = "state." + std::to_string(i);
    const TestTensor& stacked = c.expected.at(name);
    const int64_t layers = stacked.shape.back();
    for (int64_t layer = 0; layer < layers; ++layer) {
      TestTensor part{.shape = {stacked.shape.begin(), stacked.shape.end() - 1}};
      for (size_t at = layer; at < stacked.values.size(); at += layers) {
        part.values.push_back(stacked.values[at]);
      }
      AddBlock(c, name, layer, tensors[i], part, blocks);
    }
  }
}

bool UnknownArchitecture(const absl::Status& status) {
  return status.message().find("model_type: ") != absl::string_view::npos;
}

}  // namespace

const std::vector<Case>& Cases() {
  static const std::vector<Case>* const cases = [] {
    auto* result = new std::vector<Case>;
    const Json all = ReadJson(*ConformanceDir() / "index.json");
    for (const auto& [name, index] : all.items()) {
      const std::filesystem::path directory = *ConformanceDir() / name;
      if (const auto model = Model::Load(directory); UnknownArchitecture(model.status())) {
        std::cout << "skipped: " << name << ": " << model.status().message() << "\n";
        continue;
      }
      result->push_back({.name = name,
                         .index = index,
                         .prompt = ReadJson(directory / "prompt.json"),
                         .directory = directory,
                         .expected = ReadSafetensors(directory / "expected.safetensors")});
    }
    return result;
  }();
  return *cases;
}

std::vector<Variant> Variants(const Case& c) {
  static const std::vector<Variant> known = {
      {"_ln_x_eps_1e-5", {{"g_norm_eps", 1e-5}}},
      {"_mamba_ssm_group_norm", {{"norm_per_group", true}}},
  };
  std::vector<Variant> variants = {{"", Json::object()}};
  for (const Variant& variant : known) {
    if (c.expected.contains("logits" + variant.suffix)) variants.push_back(variant);
  }
  return variants;
}

std::unique_ptr<Model> LoadVariant(const Case& c, const Variant& variant) {
  if (variant.fields.empty()) return Model::Load(c.directory).value();
  const auto checkpoint = Checkpoint::Open(c.directory).value();
  std::optional<ConfigReader> file;
  const std::filesystem::path path = c.directory / "config.json";
  if (std::filesystem::exists(path)) file = ConfigReader::Parse(ReadBytes(path), path).value();
  ConfigReader* config = file.has_value() ? &*file : nullptr;
  const Layout* layout = FindLayout(*checkpoint, config);
  std::optional<ConfigReader> made;
  if (layout != nullptr && layout->make_config != nullptr) {
    made = layout->make_config(*checkpoint, config).value();
    config = &*made;
  }
  Json changed = Json::parse(config->Canonical());
  changed.update(variant.fields);
  ConfigReader reader(changed, c.name);
  LayoutWeights weights(*checkpoint,
                        layout == nullptr ? std::span<const StoredName>() : layout->names);
  return Model::Create(reader, weights).value();
}

std::vector<ExpectedBlock> ExpectedState(const Case& c) {
  std::vector<ExpectedBlock> blocks;
  if (c.expected.contains("state.0")) AddStacked(c, blocks);
  const std::string prefix = "state.layers.";
  for (const auto& [name, tensor] : c.expected) {
    if (!name.starts_with(prefix)) continue;
    const size_t dot = name.find('.', prefix.size());
    AddBlock(c, name, std::stoll(name.substr(prefix.size(), dot - prefix.size())),
             name.substr(dot + 1), tensor, blocks);
  }
  return blocks;
}

}  // namespace fermata
