#ifndef FERMATA_TESTS_ENGINE_MODEL_CASES_H_
#define FERMATA_TESTS_ENGINE_MODEL_CASES_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "nlohmann/json.hpp"
#include "tests/conformance.h"

namespace fermata {

// A published checkpoint with the outputs of its reference code.
struct Case {
  std::string name;
  nlohmann::json index;   // Its entry in index.json.
  nlohmann::json prompt;  // prompt.json
  std::filesystem::path directory;
  std::map<std::string, TestTensor> expected;

  std::string family() const { return index.value("family", ""); }
  double tolerance() const { return index.at("atol_logits").get<double>(); }
  std::vector<int32_t> Ids(const std::string& field) const {
    return prompt.value(field, std::vector<int32_t>());
  }
};

// All cases whose architecture is known; says which are not.
const std::vector<Case>& Cases();

// References disagree in places; a variant is what another reference computes from the same
// checkpoint. Its expected tensors and greedy ids have `suffix` to their names.
struct Variant {
  std::string suffix;
  nlohmann::json fields;  // Of the canonical config, in place of what is there.
};
// As published, and every variant that the case has expected tensors for.
std::vector<Variant> Variants(const Case& c);
std::unique_ptr<Model> LoadVariant(const Case& c, const Variant& variant);

// A block of the expected state in our arrangement.
struct ExpectedBlock {
  std::string tensor;  // What it was called.
  int64_t layer = 0;
  std::string suffix;         // Of the block's name: "S", "shift", …
  bool feed_forward = false;  // The last block of that name in its layer, rather than the first.
  std::vector<float> values;
};
std::vector<ExpectedBlock> ExpectedState(const Case& c);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_MODEL_CASES_H_
