// What each way of holding the weights costs in quality: bits per byte of a text, and the divergence
// of the logits from those of float32. The tables of docs/models.md:
//
//   weights_quality MODEL_DIR TEXT_FILE [TOKENS]
//
// The text's first TOKENS tokens (default 20,000) are read from a fresh state every kContext tokens.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/mapped_file.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {
namespace {

constexpr size_t kContext = 512;

std::unique_ptr<Model> Load(const std::string& directory, std::optional<WeightType> weights) {
  auto model = Model::Load(directory, {.weights = weights});
  if (model.ok()) return *std::move(model);
  std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str());
  std::exit(1);
}

// log softmax of one row of logits.
std::vector<double> LogProbabilities(std::span<const float> logits) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - highest - std::log(sum));
  return result;
}

struct Quality {
  double bits = 0;        // Of the text, given the model.
  double divergence = 0;  // Σ KL(float32 ‖ this), in nats.
  int64_t tokens = 0;
};

// Adds what one piece of the text says.
void Judge(const Model& exact, const Model& model, std::span<const int32_t> tokens,
           Quality& quality) {
  const auto all_logits = [tokens](const Model& each, Model::Workspace& workspace) {
    SequenceState state = each.NewState();
    const SequenceStep step = {
        .tokens = tokens, .state = &state, .logits = SequenceStep::Logits::kAll};
    return each.Forward({&step, 1}, Form::kRecurrent, workspace);
  };
  Model::Workspace exact_workspace;
  Model::Workspace workspace;
  const std::span<const float> expected = all_logits(exact, exact_workspace);
  const std::span<const float> logits = all_logits(model, workspace);
  const auto vocab = static_cast<size_t>(model.info().vocab_size);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto p = LogProbabilities(expected.subspan(i * vocab, vocab));
    const auto q = LogProbabilities(logits.subspan(i * vocab, vocab));
    for (size_t id = 0; id < vocab; ++id) quality.divergence += std::exp(p[id]) * (p[id] - q[id]);
    quality.bits -= q[tokens[i + 1]] / std::log(2.0);
    ++quality.tokens;
  }
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: weights_quality MODEL_DIR TEXT_FILE [TOKENS]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const size_t most = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 20'000;
  const auto exact = Load(directory, WeightType::kF32);
  const auto tokenizer = Tokenizer::Load(directory, exact->info().vocab_size);
  const auto text = ReadFile(argv[2]);
  if (!tokenizer.ok() || !text.ok()) {
    std::fprintf(stderr, "no tokenizer or no text\n");
    return 1;
  }
  std::vector<int32_t> tokens = (*tokenizer)->Encode(*text, /*parse_special=*/true);
  tokens.resize(std::min(tokens.size(), most));

  std::printf("| weights | bits per byte | KL divergence from f32, nats a token |\n");
  std::printf("| --- | --- | --- |\n");
  for (const auto& [type, name] : kWeightTypeNames) {
    const auto model = Load(directory, type);
    Quality quality;
    double bytes = 0;
    for (size_t begin = 0; begin < tokens.size(); begin += kContext) {
      const auto piece =
          std::span(tokens).subspan(begin, std::min(kContext, tokens.size() - begin));
      Judge(*exact, *model, piece, quality);
      for (const int32_t token : piece.subspan(1)) {
        bytes += static_cast<double>((*tokenizer)->TokenBytes(token).size());
      }
    }
    std::printf("| `%s` | %.4f | %.2e |\n", std::string(name).c_str(), quality.bits / bytes,
                quality.divergence / static_cast<double>(quality.tokens));
  }
  return 0;
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) { return fermata::Main(argc, argv); }
