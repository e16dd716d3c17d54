#ifndef FERMATA_TESTS_CONFORMANCE_H_
#define FERMATA_TESTS_CONFORMANCE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace fermata {

// Published checkpoints and operations with the outputs of their reference code, which the tests
// compare with. The folder is $FERMATA_CONFORMANCE, else ../shared/conformance beside the source
// tree; nullopt where there is none.
std::optional<std::filesystem::path> ConformanceDir();

// Ends the running test as skipped, with the reason, where the conformance folder is absent.
#define FERMATA_SKIP_WITHOUT_CONFORMANCE()                                                \
  if (!::fermata::ConformanceDir().has_value())                                           \
  GTEST_SKIP() << "no conformance data: set FERMATA_CONFORMANCE to the folder that holds" \
                  " index.json"

struct TestTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // Row-major. F16 and BF16 are widened.
};

// All tensors of a .safetensors file of F32, F16 and BF16. Written for trusted test data, apart
// from the engine's own reader so that it can check that one. Throws std::runtime_error.
std::map<std::string, TestTensor> ReadSafetensors(const std::filesystem::path& path);

// A JSON file. Throws.
nlohmann::json ReadJson(const std::filesystem::path& path);

}  // namespace fermata

#endif  // FERMATA_TESTS_CONFORMANCE_H_
