#include "server/http/message.h"

#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MessageTest, HeadersAreFoundWhateverTheirCase) {
  const HttpRequest request{.headers = {{"X-Session-Id", "fox"}, {"x-session-id", "hare"}}};
  EXPECT_EQ(request.Header("x-SESSION-id"), "fox");
  EXPECT_EQ(request.Header("x-session"), std::nullopt);
}

TEST(MessageTest, EscapesSpellBytes) {
  EXPECT_EQ(PercentDecode("a%2Fb%20%c3%A9+"), "a/b é+");
  EXPECT_EQ(PercentDecode(""), "");
  for (const char* bad : {"%", "%2", "%2g", "a%zz", "%ff", "%C3"}) {
    EXPECT_EQ(PercentDecode(bad), std::nullopt) << bad;
  }
}

TEST(MessageTest, TargetsHaveAPathAndAQuery) {
  const auto target = ParseTarget("/v1/sessions/a%2Fb?page_size=3&labels.x=a+b%26c&flag&&=v");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/v1/sessions/a%2Fb");
  EXPECT_THAT(target->query, ElementsAre(Pair("", "v"), Pair("flag", ""), Pair("labels.x", "a b&c"),
                                         Pair("page_size", "3")));
  EXPECT_TRUE(ParseTarget("/a")->query.empty());
  EXPECT_FALSE(ParseTarget("/a?b=%f").has_value());
}

}  // namespace
}  // namespace fermata
