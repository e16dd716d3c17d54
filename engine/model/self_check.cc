#include "engine/model/self_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

namespace fermata {
namespace {

// All logits of `tokens`, fed in pieces of `piece`.
std::vector<float> Logits(const Model& model, std::span<const int32_t> tokens, Form form,
                          size_t piece) {
  SequenceState state = model.NewState();
  Model::Workspace workspace;
  std::vector<float> all;
  for (size_t begin = 0; begin < tokens.size(); begin += piece) {
    const SequenceStep step = {
        .tokens = tokens.subspan(begin, std::min(piece, tokens.size() - begin)),
        .state = &state,
        .logits = SequenceStep::Logits::kAll};
    const auto logits = model.Forward({&step, 1}, form, workspace);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

double LargestDifference(const std::vector<float>& actual, const std::vector<float>& expected) {
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double distance = std::abs(double{actual[i]} - double{expected[i]});
    if (!std::isfinite(distance)) return std::nan("");
    difference = std::max(difference, distance);
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return difference == 0 ? 0 : difference / largest;
}

}  // namespace

std::vector<FormDifference> CompareForms(const Model& model, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(model.info().vocab_size));
  }
  const std::vector<float> expected = Logits(model, tokens, Form::kRecurrent, 1);
  std::vector<FormDifference> differences;
  for (const Form form : {Form::kRecurrent, Form::kChunkwise, Form::kParallel}) {
    const size_t piece = (tokens.size() + 1) / 2;
    differences.push_back({form, LargestDifference(Logits(model, tokens, form, piece), expected)});
  }
  return differences;
}

}  // namespace fermata
