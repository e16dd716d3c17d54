// Encoding and decoding speed.
//   tokenizer_bench --tokenizer_dir=DIR --text=FILE [Google Benchmark's flags]
// encodes the first 4 MB of FILE with the tokenizer of DIR. Without them, as `make bench` runs it:
// the embedded model's tokenizer and its card.

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/mapped_file.h"
#include "engine/tokenizer/tokenizer.h"

namespace fermata {
namespace {

constexpr int64_t kAnySize = 1 << 24;
constexpr size_t kTextBytes = 4'000'000;

std::string tokenizer_dir;
std::string text;

void BM_Load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Load(tokenizer_dir, kAnySize));
}

void BM_Encode(benchmark::State& state) {
  const auto tokenizer = Tokenizer::Load(tokenizer_dir, kAnySize).value();
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer->Encode(text, /*parse_special=*/true).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] =
      static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void BM_IncrementalDecode(benchmark::State& state) {
  const auto tokenizer = Tokenizer::Load(tokenizer_dir, kAnySize).value();
  const auto ids = tokenizer->Encode(text, /*parse_special=*/true);
  for (auto _ : state) {
    IncrementalDecoder decoder(*tokenizer);
    for (const int32_t id : ids) benchmark::DoNotOptimize(decoder.Append(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}

// Takes "--name=value" out of the arguments; `fallback` where there is none.
std::string TakeFlag(std::string_view name, std::string_view fallback, int& argc, char** argv) {
  const std::string prefix = "--" + std::string(name) + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(prefix)) continue;
    const std::string value(argument.substr(prefix.size()));
    for (; i + 1 < argc; ++i) argv[i] = argv[i + 1];
    --argc;
    return value;
  }
  return std::string(fallback);
}

int Main(int argc, char** argv) {
  tokenizer_dir = TakeFlag("tokenizer_dir", "models/tinystories-linear", argc, argv);
  const std::string path = TakeFlag("text", "models/tinystories-linear/README.md", argc, argv);
  const auto tokenizer = Tokenizer::Load(tokenizer_dir, kAnySize);
  const auto file = ReadFile(path);
  for (const absl::Status& status : {tokenizer.status(), file.status()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  text = file->substr(0, kTextBytes);
  benchmark::RegisterBenchmark("BM_Load", BM_Load)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("BM_Encode", BM_Encode)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("BM_IncrementalDecode", BM_IncrementalDecode)
      ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) { return fermata::Main(argc, argv); }
