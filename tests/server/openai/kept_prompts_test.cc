#include "server/openai/kept_prompts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

KeptPrompts::Rendered Prompt(int32_t token, size_t count = 1) {
  return {.token_ids = std::vector<int32_t>(count, token), .position = token};
}

TEST(KeptPromptsTest, OfTheSameRequestAlone) {
  KeptPrompts prompts;
  prompts.Put({"anna", "k"}, "body", Prompt(5));
  const auto found = prompts.Find({"anna", "k"}, "body");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->token_ids, std::vector<int32_t>{5});
  EXPECT_EQ(found->position, 5);
  EXPECT_FALSE(prompts.Find({"anna", "k"}, "other").has_value());
  EXPECT_FALSE(prompts.Find({"tom", "k"}, "body").has_value());
  prompts.Put({"anna", "k"}, "other", Prompt(6));
  EXPECT_FALSE(prompts.Find({"anna", "k"}, "body").has_value());
  EXPECT_EQ(prompts.Find({"anna", "k"}, "other")->position, 6);
}

TEST(KeptPromptsTest, TheOldestGo) {
  KeptPrompts prompts;
  for (int i = 0; i < 1025; ++i) prompts.Put({"", std::to_string(i)}, "", Prompt(i));
  EXPECT_FALSE(prompts.Find({"", "0"}, "").has_value());
  EXPECT_TRUE(prompts.Find({"", "1"}, "").has_value());
  prompts.Put({"", "long"}, "", Prompt(1, size_t{1} << 20));
  EXPECT_FALSE(prompts.Find({"", "1024"}, "").has_value());
  EXPECT_TRUE(prompts.Find({"", "long"}, "").has_value());
}

}  // namespace
}  // namespace fermata
