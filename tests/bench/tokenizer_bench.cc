// Encoding and decoding speed.
//   tokenizer_bench [--tokenizer_dir=DIR] [--text=FILE] [Google Benchmark's flags]
// encodes the first 4 MB of FILE with the tokenizer of DIR. Without DIR, as `make bench` runs it:
// with the embedded model's and with every tokenizer file of the conformance data. Without FILE: the
// embedded model's card, and text of many scripts from the conformance data's strings.

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/mapped_file.h"
#include "engine/tokenizer/byte_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/conformance.h"
#include "tests/files.h"

namespace fermata {
namespace {

constexpr int64_t kAnySize = 1 << 24;
constexpr size_t kTextBytes = 4'000'000;
constexpr char kEmbedded[] = "models/tinystories-linear";

using Texts = std::map<std::string, std::string>;

void BM_Load(benchmark::State& state, const std::string& directory) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Load(directory, kAnySize));
}

void BM_Encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.Encode(text, /*parse_special=*/true).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] =
      static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void BM_IncrementalDecode(benchmark::State& state, const Tokenizer& tokenizer,
                          const std::string& text) {
  const auto ids = tokenizer.Encode(text, /*parse_special=*/true);
  for (auto _ : state) {
    IncrementalDecoder decoder(tokenizer);
    for (const int32_t id : ids) benchmark::DoNotOptimize(decoder.Append(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}

// Takes "--name=value" out of the arguments; empty where there is none.
std::string TakeFlag(std::string_view name, int& argc, char** argv) {
  const std::string prefix = "--" + std::string(name) + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(prefix)) continue;
    const std::string value(argument.substr(prefix.size()));
    for (; i + 1 < argc; ++i) argv[i] = argv[i + 1];
    --argc;
    return value;
  }
  return {};
}

// The strings of a conformance case, all scripts and more, in random order until it is enough.
std::string ManyScripts(const std::filesystem::path& cases) {
  std::vector<std::string> strings;
  for (const auto& item : ReadJson(cases)) {
    if (item.contains("text")) strings.push_back(item.at("text").get<std::string>());
  }
  std::mt19937 random(1);
  std::string text;
  while (text.size() < kTextBytes) text += strings[random() % strings.size()] + "\n";
  return text;
}

// Registers what is measured of one tokenizer, which lives as long as the process.
void Register(const std::string& name, const Tokenizer& tokenizer, const Texts& texts) {
  for (const auto& [text_name, text] : texts) {
    const std::string suffix = "/" + name + "/" + text_name;
    benchmark::RegisterBenchmark(("BM_Encode" + suffix).c_str(), [&](benchmark::State& state) {
      BM_Encode(state, tokenizer, text);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(
        ("BM_IncrementalDecode" + suffix).c_str(),
        [&](benchmark::State& state) { BM_IncrementalDecode(state, tokenizer, text); })
        ->Unit(benchmark::kMillisecond);
  }
}

bool RegisterDirectory(const std::string& name, const std::string& directory, const Texts& texts) {
  auto tokenizer = Tokenizer::Load(directory, kAnySize);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
    return false;
  }
  benchmark::RegisterBenchmark(("BM_Load/" + name).c_str(), [directory](benchmark::State& state) {
    BM_Load(state, directory);
  })->Unit(benchmark::kMillisecond);
  Register(name, *tokenizer->release(), texts);
  return true;
}

// Each file of the conformance data by itself, in a directory under `links`.
void RegisterConformance(const std::filesystem::path& links, const Texts& texts) {
  for (const auto& folder : std::filesystem::directory_iterator(*ConformanceDir() / "tokenizers")) {
    for (const std::string file :
         {"tokenizer.json", "tokenizer.model", "rwkv_vocab_v20230424.txt"}) {
      if (!std::filesystem::exists(folder.path() / file)) continue;
      const std::string name = folder.path().filename().string() + "." + file;
      std::filesystem::create_directory(links / name);
      std::filesystem::create_symlink(std::filesystem::absolute(folder.path() / file),
                                      links / name / file);
      RegisterDirectory(name, links / name, texts);
    }
  }
}

int Main(int argc, char** argv) {
  const std::string directory = TakeFlag("tokenizer_dir", argc, argv);
  const std::string file = TakeFlag("text", argc, argv);
  const auto text = ReadFile(file.empty() ? std::string(kEmbedded) + "/README.md" : file);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    return 1;
  }
  Texts texts = {{file.empty() ? "card" : "text", text->substr(0, kTextBytes)}};
  const bool conformance = ConformanceDir().has_value();
  if (file.empty() && conformance) {
    const auto cases = *ConformanceDir() / "tokenizers/rwkv_world/encode.json";
    if (std::filesystem::exists(cases)) texts["scripts"] = ManyScripts(cases);
  }
  const TempDir links;
  const ByteTokenizer bytes;
  if (!directory.empty()) {
    if (!RegisterDirectory("given", directory, texts)) return 1;
  } else {
    if (!RegisterDirectory("embedded", kEmbedded, texts)) return 1;
    Register("byte", bytes, texts);
    if (conformance) RegisterConformance(links.path(), texts);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) { return fermata::Main(argc, argv); }
