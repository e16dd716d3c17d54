// Runs a fuzz target without libFuzzer: on the files named; or on its seeds, on what is kept in the
// directory named, and on a fixed number of mutations of those, the same ones each time.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/files.h"
#include "tests/fuzz/fuzz.h"

namespace fermata {
namespace {

constexpr int kRounds = 20'000;
constexpr int kMaxChanges = 4;

// From a copy that is exactly as long, so that sanitizers see a read past it.
void Run(const std::string& input) {
  const auto copy = std::make_unique<uint8_t[]>(input.size());
  if (!input.empty()) std::memcpy(copy.get(), input.data(), input.size());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string Next() {
    std::string input = seeds_[Below(seeds_.size())];
    for (size_t changes = 1 + Below(kMaxChanges); changes > 0 && !input.empty(); --changes) {
      Change(input);
    }
    return input;
  }

 private:
  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  void Change(std::string& input) {
    const size_t at = Below(input.size());
    switch (Below(7)) {
      case 0:
        input[at] = static_cast<char>(random_());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
        break;
      case 2:
        input.resize(at);
        break;
      case 3:
        input.erase(at, 1 + Below(16));
        break;
      case 4:
        Overwrite(input, at, Number());
        break;
      case 5:  // A piece of the same input, once more.
        input.insert(Below(input.size()), input.substr(at, 1 + Below(64)));
        break;
      default: {  // The end of another seed.
        const std::string& other = seeds_[Below(seeds_.size())];
        input = input.substr(0, at) + other.substr(Below(other.size() + 1));
      }
    }
  }

  // A number of 1, 2, 4 or 8 bytes that lengths and offsets tend to go wrong at.
  std::string Number() {
    static constexpr uint64_t kNumbers[] = {0,
                                            1,
                                            127,
                                            255,
                                            65535,
                                            0x7fffffff,
                                            0xffffffff,
                                            uint64_t{1} << 32,
                                            uint64_t{1} << 60,
                                            INT64_MAX,
                                            UINT64_MAX,
                                            2};
    const uint64_t number = kNumbers[Below(std::size(kNumbers))];
    return {reinterpret_cast<const char*>(&number), size_t{1} << Below(4)};
  }

  static void Overwrite(std::string& input, size_t at, const std::string& bytes) {
    input.replace(at, bytes.size(), bytes);
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{20240607};
};

// Its files' contents, in the order of their names.
std::vector<std::string> Kept(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> kept;
  for (const auto& file : files) kept.push_back(ReadBytes(file));
  return kept;
}

void RunMutations(const std::filesystem::path& directory) {
  std::vector<std::string> seeds = FuzzSeeds();
  for (std::string& kept : Kept(directory)) seeds.push_back(std::move(kept));
  for (const std::string& seed : seeds) Run(seed);
  const size_t count = seeds.size();
  Mutator mutator(std::move(seeds));
  for (int round = 0; round < kRounds; ++round) Run(mutator.Next());
  std::printf("%zu seeds, %d mutations\n", count, kRounds);
}

}  // namespace
}  // namespace fermata

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      fermata::RunMutations(argv[i]);
    } else {
      fermata::Run(fermata::ReadBytes(argv[i]));
    }
  }
}
