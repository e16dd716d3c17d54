#include "server/observe/logging.h"

#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

TEST(LoggingTest, TextIsKeyEqualsValue) {
  EXPECT_EQ(FormatEvent(LogFormat::kText, "turn_completed",
                        {{"request_id", "a-1"}, {"tokens", 12}, {"seconds", 0.25}, {"ok", true}}),
            "event=turn_completed request_id=a-1 tokens=12 seconds=0.25 ok=1");
}

TEST(LoggingTest, TextQuotesWhatCouldBeTakenForMore) {
  const auto line = [](const std::string& id) {
    return FormatEvent(LogFormat::kText, "e", {{"id", id}});
  };
  EXPECT_EQ(line(""), "event=e");
  EXPECT_EQ(line("a b"), R"(event=e id="a b")");
  EXPECT_EQ(line("a event=x"), R"(event=e id="a event=x")");
  EXPECT_EQ(line("a=b"), R"(event=e id="a=b")");
  EXPECT_EQ(line("say \"hi\""), R"(event=e id="say \"hi\"")");
  EXPECT_EQ(line("back\\slash"), R"(event=e id="back\\slash")");
  EXPECT_EQ(line("a\nevent=forged"), R"(event=e id="a\nevent=forged")");
  EXPECT_EQ(line("\x1b[31m\x7f"), R"(event=e id="\u001b[31m\u007f")");
  EXPECT_EQ(line("\xC3\xA9"), R"(event=e id="\u00e9")");
  EXPECT_EQ(line("\xFF"), R"(event=e id="\ufffd")");
}

TEST(LoggingTest, EveryByteStaysOnOneLineInBothFormats) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string id(3, static_cast<char>(byte));
    const std::string text = FormatEvent(LogFormat::kText, "e", {{"id", id}});
    for (const char c : text) {
      EXPECT_GE(c, 0x20) << byte;
      EXPECT_LT(c, 0x7F) << byte;
    }
    const std::string json = "{" + FormatEvent(LogFormat::kJson, "e", {{"id", id}}) + "}";
    const auto parsed = nlohmann::json::parse(json, nullptr, false);
    ASSERT_TRUE(parsed.is_object()) << json;
    EXPECT_EQ(parsed.size(), 2u);
    if (byte < 0x80) {
      EXPECT_EQ(parsed["id"], id);
    }
  }
}

TEST(LoggingTest, JsonKeepsTypes) {
  const auto parsed = nlohmann::json::parse(
      "{" +
      FormatEvent(LogFormat::kJson, "e",
                  {{"count", -3}, {"seconds", 1.5}, {"never", 1.0 / 0.0}, {"name", "x"}}) +
      "}");
  EXPECT_EQ(parsed["event"], "e");
  EXPECT_EQ(parsed["count"], -3);
  EXPECT_EQ(parsed["seconds"], 1.5);
  EXPECT_TRUE(parsed["never"].is_null());
  EXPECT_EQ(parsed["name"], "x");
}

}  // namespace
}  // namespace fermata
