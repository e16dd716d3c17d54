#include "client/bench/trace.h"

#include <string>

#include "client/bench/prompts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Error(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

constexpr char kAzure[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

TEST(TraceTest, ReadsAzures) {
  const auto trace = ParseTrace(std::string(kAzure) +
                                    "2023-11-16 18:15:46.6805900,374,44\r\n"
                                    "2023-11-16 18:16:50.9951690,396,109\n"
                                    "2023-11-17 00:00:00.0000000,0,0",
                                "f.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_THAT(*trace, SizeIs(3));
  EXPECT_EQ((*trace)[0].seconds, 0);
  EXPECT_NEAR((*trace)[1].seconds, 64.314579, 1e-6);
  EXPECT_NEAR((*trace)[2].seconds, 5 * 3600 + 44 * 60 + 13.31941, 1e-5);
  EXPECT_EQ((*trace)[1].prompt_tokens, 396);
  EXPECT_EQ((*trace)[1].generate_tokens, 109);
  EXPECT_THAT((*trace)[1].blocks, IsEmpty());
}

TEST(TraceTest, ReadsMooncakes) {
  const auto trace = ParseTrace(
      R"({"timestamp": 3000, "input_length": 513, "output_length": 5, "hash_ids": [0, 9]}
{"timestamp": 4500, "input_length": 10, "output_length": 7, "hash_ids": [0]}
)",
      "f.jsonl");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_THAT(*trace, SizeIs(2));
  EXPECT_EQ((*trace)[0].seconds, 0);
  EXPECT_DOUBLE_EQ((*trace)[1].seconds, 1.5);
  EXPECT_EQ((*trace)[0].prompt_tokens, 513);
  EXPECT_EQ((*trace)[1].generate_tokens, 7);
  EXPECT_THAT((*trace)[0].blocks, ElementsAre(0, 9));
}

TEST(TraceTest, ErrorsNameFileAndLine) {
  const std::string good = "2023-11-16 18:15:46.68,374,44\n";
  for (const std::string bad :
       {"2023-11-16 18:15:47,374", "2023-11-16 18:15:47,1,2,3", "yesterday,374,44",
        "2023-11-16 18:15:47,many,44", "2023-11-16 18:15:47,1,-2", "2023-11-16 18:15:47,1,9999999",
        "2023-11-16 18:15:45,374,44", "{}"}) {
    const std::string text = kAzure + good + bad + "\n" + good;
    EXPECT_THAT(Error(ParseTrace(text, "dir/f.csv").status()), HasSubstr("dir/f.csv: line 3: "))
        << bad;
  }
  const std::string line = R"({"timestamp": 1, "input_length": 1, "output_length": 1})";
  for (const std::string bad :
       {R"({"timestamp": 1, "input_length": 1})", R"({"timestamp": 0, "input_length": 1})",
        R"({"timestamp": 0, "input_length": 1, "output_length": 1})",
        R"({"timestamp": 2, "input_length": "1", "output_length": 1})",
        R"({"timestamp": 2, "input_length": 600, "output_length": 1, "hash_ids": [1]})", "{", "1,2",
        "[1]", "\xff"}) {
    EXPECT_THAT(Error(ParseTrace(line + "\n" + bad, "f.jsonl").status()),
                HasSubstr("f.jsonl: line 2: "))
        << bad;
  }
  for (const std::string& nothing : {std::string(), std::string(kAzure), std::string("\n\n")}) {
    EXPECT_THAT(Error(ParseTrace(nothing, "f").status()), HasSubstr("f: has no request"));
  }
}

TEST(PromptsTest, ReadsEachFormat) {
  const auto good = ParsePrompts(
      "{\"prompt\": \"a\"}\n{\"turns\": [\"b\", \"c\"]}\n\n{\"messages\": [{\"role\": \"user\", "
      "\"content\": \"d\"}, {\"role\": \"assistant\", \"content\": \"no\"}, {\"role\": \"user\", "
      "\"content\": \"e\"}]}\n{\"instruction\": \"f\"}",
      "f");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(*good,
              ElementsAre(Dialogue{"a"}, Dialogue{"b", "c"}, Dialogue{"d", "e"}, Dialogue{"f"}));
  const auto plain = ParsePrompts("Once upon\r\n\n a time {\n", "f");
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(*plain, ElementsAre(Dialogue{"Once upon"}, Dialogue{" a time {"}));
}

TEST(PromptsTest, ErrorsNameFileAndLine) {
  for (const std::string bad : {"{\"text\": \"x\"}", "{\"prompt\": 1}", "{\"prompt\": \"\"}",
                                "{\"turns\": []}", "{\"turns\": [1]}", "{\"messages\": [1]}",
                                "{\"messages\": [{\"role\": \"user\"}]}", "nothing"}) {
    EXPECT_THAT(Error(ParsePrompts("{\"prompt\": \"x\"}\n" + bad, "f").status()),
                HasSubstr("f: line 2: "))
        << bad;
  }
  EXPECT_THAT(Error(ParsePrompts("\n", "f").status()), HasSubstr("f: has no prompt"));
}

}  // namespace
}  // namespace fermata::bench
