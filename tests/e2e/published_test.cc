// Published checkpoints behind the real server: what their authors' code generates comes over the
// wire, in one turn or in several, from safetensors or GGUF.

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance.h"
#include "tests/e2e/child_process.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using Ids = std::vector<int32_t>;

constexpr size_t kByteVocabulary = 256;  // Models of so many tokens need no tokenizer's files.

struct Published {
  std::string name;
  std::string family;
  std::filesystem::path directory;
  Ids prompt;
  Ids greedy;
};

// The cases that can be served as they are: those whose tokens are bytes.
std::vector<Published> ByteModels() {
  std::vector<Published> models;
  const nlohmann::json cases = ReadJson(*ConformanceDir() / "index.json");
  for (const auto& [name, index] : cases.items()) {
    const std::filesystem::path directory = *ConformanceDir() / name;
    const auto expected = ReadSafetensors(directory / "expected.safetensors");
    if (expected.at("logits").shape.back() != kByteVocabulary) continue;
    const nlohmann::json prompt = ReadJson(directory / "prompt.json");
    models.push_back({.name = name,
                      .family = index.at("family").get<std::string>(),
                      .directory = directory,
                      .prompt = prompt.at("prompt_ids").get<Ids>(),
                      .greedy = prompt.at("greedy_ids").get<Ids>()});
  }
  return models;
}

class PublishedTest : public ::testing::Test {
 protected:
  void SetUp() override { FERMATA_SKIP_WITHOUT_CONFORMANCE(); }
};

TEST_F(PublishedTest, TheAuthorsContinuationComesInOneTurnAndInMany) {
  const std::vector<Published> models = ByteModels();
  ASSERT_FALSE(models.empty());
  for (const Published& model : models) {
    SCOPED_TRACE(model.name);
    const ServerProcess server({"--model_dir=" + model.directory.string(), "--weights=f32"});
    const auto client = server.Connect();
    const int count = static_cast<int>(model.greedy.size());
    EXPECT_EQ(RunOk(*client, WithIds(Greedy("", count), model.prompt)).ids, model.greedy);

    // The prompt's ids are bytes, so text is as good; each turn generates a few tokens.
    const std::string text(model.prompt.begin(), model.prompt.end());
    Ids ids = RunOk(*client, On("published", Greedy(text, 5))).ids;
    while (static_cast<int>(ids.size()) < count) {
      const int more = std::min(7, count - static_cast<int>(ids.size()));
      const Ids next = RunOk(*client, On("published", Greedy("", more))).ids;
      ids.insert(ids.end(), next.begin(), next.end());
    }
    EXPECT_EQ(ids, model.greedy);
    const v1::Model info = *client->GetModel();
    EXPECT_EQ(client->GetSession("published")->state_bytes(), info.state_bytes());
    EXPECT_THAT(info.remarks(), ::testing::IsEmpty());
  }
}

// Where a layout does without a config, the file of weights is all there is.
TEST_F(PublishedTest, AFileOfWeightsIsServedToo) {
  for (const Published& model : ByteModels()) {
    if (std::filesystem::exists(model.directory / "config.json")) continue;
    SCOPED_TRACE(model.name);
    const std::string file = (model.directory / "model.safetensors").string();
    const ServerProcess server({"--model_dir=" + file, "--weights=f32"});
    const auto client = server.Connect();
    const int count = static_cast<int>(model.greedy.size());
    EXPECT_EQ(RunOk(*client, WithIds(Greedy("", count), model.prompt)).ids, model.greedy);
    return;  // One is enough.
  }
}

TEST_F(PublishedTest, TheCommandLineInspectsAndVerifiesEveryCase) {
  const nlohmann::json cases = ReadJson(*ConformanceDir() / "index.json");
  for (const auto& [name, index] : cases.items()) {
    SCOPED_TRACE(name);
    const std::string directory = (*ConformanceDir() / name).string();
    ChildProcess inspect("fermata", {"models", "inspect", directory, "--json"});
    EXPECT_EQ(inspect.Wait(), 0) << inspect.errors();
    const auto told = nlohmann::json::parse(inspect.output());
    EXPECT_EQ(told.at("parameters"), index.at("params"));
    EXPECT_GT(told.at("state_bytes"), 0);
    EXPECT_GT(told.at("break_even_tokens"), 0);

    ChildProcess verify("fermata", {"models", "verify", directory, "--json", "--tokens", "70"});
    ASSERT_TRUE(verify.Wait().has_value());
    std::istringstream lines(verify.output());
    int forms = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto check = nlohmann::json::parse(line);
      const std::string what = check.at("check").get<std::string>();
      if (what.find(" form, ") == std::string::npos) continue;  // Most have no tokenizer's files.
      EXPECT_TRUE(check.at("ok").get<bool>()) << line;
      ++forms;
    }
    EXPECT_EQ(forms, 3);
  }
}

TEST_F(PublishedTest, ABrokenDirectoryIsOneLineAndAnExitCode) {
  ChildProcess inspect("fermata", {"models", "inspect", "/no/such/model"});
  EXPECT_EQ(inspect.Wait(), 1);
  EXPECT_THAT(inspect.errors(), ::testing::HasSubstr("/no/such/model"));
  EXPECT_THAT(inspect.output(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace fermata::e2e
