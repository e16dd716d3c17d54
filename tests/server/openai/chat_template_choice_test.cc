#include "server/openai/chat_template_choice.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files.h"
#include "tests/server/openai/marked_tokenizer.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

// The name of the template for a model with these files; or the reason of the refusal.
struct Model {
  std::string tokenizer_config;
  std::string jinja;
  std::vector<std::string> marks;
  std::string family = "gla";
};
std::string Chosen(const Model& model, const std::string& name = "auto") {
  const TempDir directory;
  const std::filesystem::path path(directory.path());
  if (!model.tokenizer_config.empty()) {
    std::ofstream(path / "tokenizer_config.json") << model.tokenizer_config;
  }
  if (!model.jinja.empty()) std::ofstream(path / "chat_template.jinja") << model.jinja;
  ModelInfo info;
  info.family = model.family;
  TokenizerData data{.source = "test"};
  const auto tokenizer = MarkedTokenizer(model.marks);
  const auto chosen = ChooseChatTemplate(name, path.string(), info, *tokenizer);
  return chosen.ok() ? std::string((*chosen)->name) : DetailsOf(chosen.status()).reason;
}

TEST(ChatTemplateChoiceTest, RecognisesTheModelsOwn) {
  EXPECT_EQ(
      Chosen({.tokenizer_config = R"({"chat_template": "{% for m in messages %}{{'<|im_start|>'
 + m['role']}}<|im_end|>{% endfor %}"})"}),
      "INVALID_ARGUMENT");  // A line break within a string of JSON.
  EXPECT_EQ(Chosen({.tokenizer_config = R"({"chat_template": "<|im_start|> … <|im_end|>"})"}),
            "chatml");
  EXPECT_EQ(Chosen({.jinja = "{{ bos_token + '[INST] ' + '<<SYS>>' + ' [/INST]' }}"}), "llama2");
  EXPECT_EQ(Chosen({.jinja = "{{ '[INST] ' + message['content'] + ' [/INST]' }}"}), "mistral");
  EXPECT_EQ(Chosen({.jinja = "<|start_header_id|>user<|end_header_id|> <|eot_id|>"}), "llama3");
  EXPECT_EQ(Chosen({.jinja = "{{'<|rwkv_tokenizer_end_of_text|>'}}{{'User: ' + m}}Assistant:"}),
            "rwkv");
  EXPECT_EQ(Chosen({.tokenizer_config = R"({"chat_template": [{"name": "tool_use", "template": "?"},
                    {"name": "default", "template": "[INST] [/INST]"}]})"}),
            "mistral");
}

TEST(ChatTemplateChoiceTest, RefusesWhatItDoesNotKnowUnlessOneIsNamed) {
  const Model gemma = {.jinja = "<start_of_turn>user\n<end_of_turn>", .marks = {"<|im_start|>"}};
  EXPECT_EQ(Chosen(gemma), "CHAT_TEMPLATE_UNKNOWN");
  EXPECT_EQ(Chosen(gemma, "llama2"), "llama2");
}

TEST(ChatTemplateChoiceTest, WithoutOneTokensAndFamilyTell) {
  EXPECT_EQ(Chosen({.tokenizer_config = "{}", .marks = {"<|im_start|>", "<|im_end|>"}}), "chatml");
  EXPECT_EQ(Chosen({.marks = {"<|start_header_id|>", "<|eot_id|>"}}), "llama3");
  EXPECT_EQ(Chosen({}), "rwkv");  // By its tokenizer.
  ModelInfo info;
  info.family = "linear_attn";
  const TempDir directory;
  const auto bytes = Tokenizer::Load(directory.path(), 256);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ((*ChooseChatTemplate("auto", directory.path(), info, **bytes))->name, "plain");
  info.family = "rwkv";
  EXPECT_EQ((*ChooseChatTemplate("auto", directory.path(), info, **bytes))->name, "rwkv");
}

}  // namespace
}  // namespace fermata
