#include "tests/engine/model/rwkv_tensors.h"

#include <functional>

#include "tests/random_weights.h"

namespace fermata {
namespace {

using Shape = std::vector<int64_t>;

// Tensors of BlinkDL's.
class Author {
 public:
  void Add(const std::string& name, Shape shape, double mean = 0, double scale = 0.3) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    std::vector<float> values = RandomNormals(tensors_.size(), size);
    for (float& value : values) value = static_cast<float>(mean + scale * value);
    tensors_[name] = {std::move(shape), std::move(values)};
  }
  void AddNorm(const std::string& name) {
    Add(name + ".weight", {kRwkvHidden}, 1);
    Add(name + ".bias", {kRwkvHidden});
  }
  void AddVectors(const std::string& prefix, const std::vector<std::string>& names) {
    for (const std::string& name : names) Add(prefix + name, {1, 1, kRwkvHidden});
  }
  void AddMatrices(const std::string& prefix, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      Add(prefix + name + ".weight", {kRwkvHidden, kRwkvHidden});
  }
  // All but what the two modules of a block have beside their square matrices.
  void AddSkeleton(bool receptance, const std::function<void(const std::string& block)>& add) {
    Add("emb.weight", {kRwkvVocab, kRwkvHidden}, 0, 1);
    Add("head.weight", {kRwkvVocab, kRwkvHidden});
    AddNorm("ln_out");
    AddNorm("blocks.0.ln0");
    for (int64_t layer = 0; layer < kRwkvLayers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer) + ".";
      AddNorm(block + "ln1");
      AddNorm(block + "ln2");
      AddMatrices(block + "att.", {"receptance", "key", "value", "output"});
      Add(block + "ffn.key.weight", {kRwkvInner, kRwkvHidden});
      Add(block + "ffn.value.weight", {kRwkvHidden, kRwkvInner});
      if (receptance) AddMatrices(block + "ffn.", {"receptance"});
      add(block);
    }
  }
  Tensors tensors() const { return tensors_; }

 private:
  Tensors tensors_;
};

}  // namespace

Tensors Rwkv4() {
  Author author;
  author.AddSkeleton(true, [&](const std::string& block) {
    author.AddVectors(block + "att.", {"time_mix_r", "time_mix_k", "time_mix_v"});
    author.AddVectors(block + "ffn.", {"time_mix_r", "time_mix_k"});
    author.Add(block + "att.time_decay", {kRwkvHidden});
    author.Add(block + "att.time_first", {kRwkvHidden});
  });
  return author.tensors();
}

Tensors Rwkv5() {
  Author author;
  author.AddSkeleton(true, [&](const std::string& block) {
    author.AddVectors(block + "att.", {"time_mix_r", "time_mix_k", "time_mix_v", "time_mix_g"});
    author.AddVectors(block + "ffn.", {"time_mix_r", "time_mix_k"});
    author.AddMatrices(block + "att.", {"gate"});
    author.AddNorm(block + "att.ln_x");
    author.Add(block + "att.time_decay", {kRwkvHeads, kRwkvHeadDim});
    author.Add(block + "att.time_faaaa", {kRwkvHeads, kRwkvHeadDim});
  });
  return author.tensors();
}

Tensors Rwkv6() {
  Author author;
  author.AddSkeleton(true, [&](const std::string& block) {
    const std::string att = block + "att.";
    author.AddVectors(att, {"time_maa_x", "time_maa_w", "time_maa_k", "time_maa_v", "time_maa_r",
                            "time_maa_g", "time_decay"});
    author.AddVectors(block + "ffn.", {"time_maa_r", "time_maa_k"});
    author.AddMatrices(att, {"gate"});
    author.AddNorm(att + "ln_x");
    author.Add(att + "time_maa_w1", {kRwkvHidden, 5 * kRwkvRank});
    author.Add(att + "time_maa_w2", {5, kRwkvRank, kRwkvHidden});
    author.Add(att + "time_decay_w1", {kRwkvHidden, kRwkvRank + 1});
    author.Add(att + "time_decay_w2", {kRwkvRank + 1, kRwkvHidden});
    author.Add(att + "time_faaaa", {kRwkvHeads, kRwkvHeadDim});
  });
  return author.tensors();
}

Tensors Rwkv7() {
  Author author;
  author.AddSkeleton(false, [&](const std::string& block) {
    const std::string att = block + "att.";
    author.AddVectors(att,
                      {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "a0", "v0", "k_k", "k_a"});
    author.AddVectors(block + "ffn.", {"x_k"});
    author.AddNorm(att + "ln_x");
    author.Add(att + "r_k", {kRwkvHeads, kRwkvHeadDim});
    for (const auto& [letter, rank] : std::vector<std::pair<std::string, int64_t>>{
             {"w", kRwkvRank}, {"a", kRwkvRank + 1}, {"v", kRwkvRank + 2}, {"g", kRwkvRank + 3}}) {
      author.Add(att + letter + "1", {kRwkvHidden, rank});
      author.Add(att + letter + "2", {rank, kRwkvHidden});
    }
  });
  return author.tensors();
}

TestTensor Reshaped(TestTensor tensor, Shape shape) {
  tensor.shape = std::move(shape);
  return tensor;
}

TestTensor Transposed(const TestTensor& tensor) {
  TestTensor out = tensor;
  const int64_t columns = tensor.shape.back(), rows = *(tensor.shape.end() - 2);
  std::swap(out.shape.back(), *(out.shape.end() - 2));
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t matrix = at / (rows * columns), row = at / columns % rows;
    out.values[matrix * rows * columns + at % columns * rows + row] = tensor.values[i];
  }
  return out;
}

TestTensor Reordered(const TestTensor& tensor, const std::vector<int>& order) {
  TestTensor out{tensor.shape, {}};
  const size_t part = tensor.values.size() / order.size();
  for (const int index : order) {
    const auto begin = tensor.values.begin() + static_cast<std::ptrdiff_t>(index * part);
    out.values.insert(out.values.end(), begin, begin + static_cast<std::ptrdiff_t>(part));
  }
  return out;
}

TestTensor Scaled(TestTensor tensor, float factor) {
  for (float& value : tensor.values) value *= factor;
  return tensor;
}

TestTensor Stacked(const Tensors& tensors, const std::string& prefix,
                   const std::vector<std::string>& names, Shape shape) {
  TestTensor out{std::move(shape), {}};
  for (const std::string& name : names) {
    const std::vector<float>& part = tensors.at(prefix + name).values;
    out.values.insert(out.values.end(), part.begin(), part.end());
  }
  return out;
}

Tensors Renamed(const Tensors& tensors,
                const std::vector<std::pair<std::string, std::string>>& replacements) {
  Tensors renamed;
  for (const auto& [name, tensor] : tensors) {
    std::string other = name;
    for (const auto& [from, to] : replacements) {
      const size_t at = other.find(from);
      if (at != std::string::npos) other.replace(at, from.size(), to);
    }
    renamed[other] = tensor;
  }
  return renamed;
}

}  // namespace fermata
