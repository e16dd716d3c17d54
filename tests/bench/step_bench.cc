// Where a decoding step of a model goes: the time of each kind of product, of the recurrence, of
// choosing tokens and of all else, and how near each comes to what the machine allows. Prints a table
// in Markdown.
//
//   fermata models make /tmp/rwkv7-0.1b
//   step_bench --model_dir=/tmp/rwkv7-0.1b --weights=int8 --batch=64 --steps=100 --threads=2

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/kernels/huge_buffer.h"
#include "engine/kernels/matmul.h"
#include "engine/layers/part_clock.h"
#include "engine/model/model.h"
#include "engine/sampling/sampler.h"

namespace fermata {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// The best of several: what the machine can do when it is left alone.
double LeastSeconds(const std::function<void()>& work) {
  double least = 1e9;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto begin = Clock::now();
    work();
    least = std::min(least, Seconds(Clock::now() - begin));
  }
  return least;
}

// Bytes a second that all compute threads read together from memory.
double MemoryRate() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  constexpr int64_t kPieces = 512;
  const HugeBuffer buffer(kPieces * kPiece);
  const auto* words = static_cast<const uint64_t*>(buffer.data());
  std::vector<uint64_t> sums(kPieces);
  const double seconds = LeastSeconds([&] {
    ParallelFor(kPieces, kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const uint64_t* from = words + piece * (kPiece / 8);
        uint64_t sum[8] = {};
        for (int64_t i = 0; i < kPiece / 8; i += 8) {
          for (int64_t lane = 0; lane < 8; ++lane) sum[lane] ^= from[i + lane];
        }
        for (const uint64_t each : sum) sums[piece] += each;
      }
    });
  });
  return static_cast<double>(kPieces * kPiece) / seconds;
}

// Multiply-adds a second of products whose weights are in the cache.
double ProductRate(WeightType type) {
  constexpr int64_t kSize = 768;
  constexpr int64_t kRows = 192;
  constexpr int kTimes = 20;
  std::vector<float> weights(kSize * kSize);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 251) - 125;
  const PackedMatrix matrix(weights.data(), kSize, kSize, type);
  std::vector<float> x(kRows * kSize, 1.0f);
  std::vector<float> y(kRows * kSize);
  const double seconds = LeastSeconds([&] {
    for (int time = 0; time < kTimes; ++time) matrix.Multiply(x.data(), kRows, y.data());
  });
  return kTimes * static_cast<double>(kRows * kSize * kSize) / seconds;
}

struct Settings {
  std::string model_dir;
  std::string weights = "auto";
  int64_t batch = 1;
  int64_t steps = 50;
};

struct Row {
  std::string name;
  PartClock::Part part;
};

// The parts of one step on average, the greatest first, and all else last.
std::vector<Row> Measure(const Model& model, const Settings& settings) {
  constexpr int64_t kFirstSteps = 5;
  constexpr int64_t kChoiceWork = 8;  // As the scheduler counts it.
  const int64_t vocab = model.info().vocab_size;
  Model::Workspace workspace;
  std::vector<SequenceState> states;
  for (int64_t i = 0; i < settings.batch; ++i) states.push_back(model.NewState());
  std::vector<SampledToken> tokens(settings.batch);
  const auto step = [&](PartClock& clock, int64_t number) {
    std::vector<SequenceStep> steps;
    for (int64_t i = 0; i < settings.batch; ++i) {
      steps.push_back({.tokens = {&tokens[i].token, 1}, .state = &states[i]});
    }
    const std::span<const float> logits = model.Forward(steps, Form::kRecurrent, workspace);
    clock.Time("choosing tokens", {}, [&] {
      ParallelFor(settings.batch, kChoiceWork * vocab, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          tokens[i] = Sample(logits.subspan(i * vocab, vocab), {}, {}, number, true);
        }
      });
    });
  };
  {
    PartClock warm_up;
    for (int64_t i = 0; i < kFirstSteps; ++i) step(warm_up, i);
  }
  PartClock clock;
  const auto begin = Clock::now();
  for (int64_t i = 0; i < settings.steps; ++i) step(clock, kFirstSteps + i);
  PartClock::Part rest{.time = Clock::now() - begin};
  std::vector<Row> rows;
  for (const auto& [name, part] : clock.parts()) {
    rest.time -= part.time;
    rows.push_back({name, part});
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) { return a.part.time > b.part.time; });
  rows.push_back({"all else", rest});
  for (Row& row : rows) {
    row.part.time /= settings.steps;
    row.part.bytes /= settings.steps;
    row.part.multiply_adds /= settings.steps;
  }
  return rows;
}

void Print(const std::vector<Row>& rows, const Settings& settings) {
  double total = 0;
  for (const Row& row : rows) total += Seconds(row.part.time);
  const double memory = MemoryRate();
  std::printf("%lld sequences, %d threads: %.2f ms a step, %.0f tokens/s\n",
              static_cast<long long>(settings.batch), ComputeThreads(), total * 1e3,
              static_cast<double>(settings.batch) / total);
  std::printf(
      "memory gives %.1f GB/s; products from the cache do %.0f (f32), %.0f (bf16), %.0f "
      "(int8) billion multiply-adds a second\n\n",
      memory * 1e-9, ProductRate(WeightType::kF32) * 1e-9, ProductRate(WeightType::kBf16) * 1e-9,
      ProductRate(WeightType::kInt8) * 1e-9);
  std::printf(
      "| part | ms | share | GB/s | 10⁹ multiply-adds/s |\n| --- | --- | --- | --- | --- |\n");
  for (const Row& row : rows) {
    const double seconds = Seconds(row.part.time);
    std::printf("| %s | %.3f | %.1f %% |", row.name.c_str(), seconds * 1e3, seconds / total * 100);
    if (row.part.bytes > 0) {
      std::printf(" %.1f | %.0f |\n", static_cast<double>(row.part.bytes) / seconds * 1e-9,
                  static_cast<double>(row.part.multiply_adds) / seconds * 1e-9);
    } else {
      std::printf(" | |\n");
    }
  }
}

int Run(const Settings& settings) {
  const auto type = WeightTypeFromName(settings.weights);
  if (!type.has_value() && settings.weights != "auto") {
    std::cerr << "there is no --weights=" << settings.weights << "\n";
    return 1;
  }
  const auto model = Model::Load(settings.model_dir, {.weights = type});
  if (!model.ok()) {
    std::cerr << model.status().ToString() << "\n";
    return 1;
  }
  Print(Measure(**model, settings), settings);
  return 0;
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  fermata::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--model_dir")
      settings.model_dir = value;
    else if (name == "--weights")
      settings.weights = value;
    else if (name == "--batch")
      settings.batch = std::max(std::atoll(value.c_str()), 1LL);
    else if (name == "--steps")
      settings.steps = std::max(std::atoll(value.c_str()), 1LL);
    else if (name == "--threads")
      fermata::SetComputeThreads(std::atoi(value.c_str()));
    else {
      std::cerr
          << "step_bench --model_dir=DIR [--weights=auto] [--batch=1] [--steps=50] [--threads=N]\n";
      return 2;
    }
  }
  return fermata::Run(settings);
}
