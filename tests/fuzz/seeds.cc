// Gives libFuzzer the seeds to start from: written to the directory that FERMATA_FUZZ_CORPUS names,
// which is then also to be named as its corpus.

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* directory = std::getenv("FERMATA_FUZZ_CORPUS");
  if (directory == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : fermata::FuzzSeeds()) {
    std::ofstream(std::string(directory) + "/seed-" + std::to_string(number++), std::ios::binary)
        << seed;
  }
  return 0;
}
