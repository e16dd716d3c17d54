#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/models.h"

namespace fermata {
namespace {

// The model directories that the source tree ships.
std::vector<std::string> ShippedModels() {
  std::vector<std::string> directories;
  const char* source = std::getenv("FERMATA_SOURCE_DIR");
  const std::filesystem::path models = std::filesystem::path(source ? source : ".") / "models";
  if (!std::filesystem::exists(models)) return directories;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (std::filesystem::exists(entry.path() / "config.json")) directories.push_back(entry.path());
  }
  return directories;
}

TEST(ShippedModelTest, LoadsWithoutRemarkAndItsFormsAgree) {
  const std::vector<std::string> directories = ShippedModels();
  if (directories.empty()) GTEST_SKIP() << "no model in $FERMATA_SOURCE_DIR/models";
  for (const std::string& directory : directories) {
    SCOPED_TRACE(directory);
    const auto model = Model::Load(directory);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().remarks, ::testing::IsEmpty());
    EXPECT_TRUE((*model)->info().fixed_size_state);
    const auto tokens = RandomTokens(300, (*model)->info().vocab_size, 1);
    SequenceState whole = (*model)->NewState();
    const Outputs expected = Feed(**model, whole, tokens, Form::kParallel);
    EXPECT_TRUE(std::isfinite(MaxAbs(expected.logits)));
    EXPECT_GT(MaxAbs(expected.logits), 1);
    for (const Form form : {Form::kRecurrent, Form::kChunkwise}) {
      SCOPED_TRACE(FormName(form));
      SequenceState state = (*model)->NewState();
      const Outputs outputs = Feed(**model, state, tokens, RandomCuts(300, 2), form);
      EXPECT_LE(MaxDifference(outputs.logits, expected.logits), 1e-4 * MaxAbs(expected.logits));
    }
  }
}

}  // namespace
}  // namespace fermata
