#include "client/cli/output.h"

#include <cstdint>
#include <limits>
#include <sstream>

#include <google/protobuf/text_format.h>

#include "client/cli/score.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

TEST(OutputTest, GroupsDigits) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(123456), "123,456");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
  EXPECT_EQ(Grouped(-123), "-123");
  EXPECT_EQ(Grouped(-1234), "-1,234");
  EXPECT_EQ(Grouped(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(OutputTest, JsonHasEveryScalarAndTheProtosNames) {
  const std::string json = ToJson(Parse<v1::GenerateResponse>(
      R"(complete { finish_reason: STOP_TOKEN session { position: 12 } seed: 18446744073709551615
                    timings { decode { nanos: 500000000 } } })"));
  EXPECT_THAT(json, HasSubstr(R"("finish_reason":"STOP_TOKEN")"));
  EXPECT_THAT(json, HasSubstr(R"("matched_stop":"")"));
  EXPECT_THAT(json, HasSubstr(R"("position":"12")"));
  EXPECT_THAT(json, HasSubstr(R"("seed":"18446744073709551615")"));
  EXPECT_THAT(json, HasSubstr(R"("decode":"0.500s")"));
  EXPECT_THAT(json, Not(HasSubstr("\n")));
}

TEST(OutputTest, SessionShowsStateBesideKvEquivalent) {
  const std::string text = FormatSession(Parse<v1::Session>(
      R"(id: "s" position: 1234 pending_token: 7 state_bytes: 1000 kv_equivalent_bytes: 2500
         turns: 3 time_to_live { seconds: 90 } update_time { seconds: 86400 }
         labels { key: "b" value: "2" } labels { key: "a" value: "1" })"));
  EXPECT_THAT(text, HasSubstr("1,234\n"));
  EXPECT_THAT(text, HasSubstr("1,000 bytes, at every position"));
  EXPECT_THAT(text, HasSubstr("2,500 bytes, 2.5 times the state"));
  EXPECT_THAT(text, HasSubstr("1m30s"));
  EXPECT_THAT(text, HasSubstr("1970-01-02 00:00:00Z"));
  EXPECT_THAT(text, HasSubstr("a=1 b=2\n"));
  EXPECT_THAT(FormatSession(v1::Session()), HasSubstr("pending token  none"));
}

TEST(OutputTest, StatsCountTokensAfterTheFirst) {
  const std::string text = FormatStats(Parse<v1::Complete>(
      R"(finish_reason: LENGTH usage { prompt_tokens: 5 generated_tokens: 11 } seed: 9
         timings { decode { seconds: 2 } time_to_first_token { nanos: 20000000 } })"));
  EXPECT_THAT(text, HasSubstr("LENGTH: 5 prompt tokens, 11 generated"));
  EXPECT_THAT(text, HasSubstr("first token 20ms"));
  EXPECT_THAT(text, HasSubstr("5.0 tokens/s"));  // Ten in two seconds.
  EXPECT_THAT(text, HasSubstr("seed 9"));
  EXPECT_THAT(text, Not(HasSubstr("session")));
}

TEST(OutputTest, ModelSaysWhereStatesBreakEven) {
  const std::string text = FormatModel(Parse<v1::Model>(
      R"(name: "m" family: "linear_attn" parameters: 2400000 state_bytes: 123456
         kv_equivalent_bytes_per_token: 7680 break_even_tokens: 17 fixed_size_state: true
         remarks: "odd")"));
  for (const char* part :
       {"linear_attn", "2,400,000", "123,456 bytes", "7,680 bytes", "17 tokens", "odd"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(FormatModel(v1::Model()), HasSubstr("no sessions"));
}

TEST(OutputTest, ReadsTextFromWhereItIsNamed) {
  std::istringstream in("from\nstdin\n");
  EXPECT_EQ(**ReadText({.argument = "typed", .file = {}}, in), "typed");
  EXPECT_EQ(*ReadText({}, in), std::nullopt);
  EXPECT_EQ(**ReadText({.argument = "-", .file = {}}, in), "from\nstdin\n");
  const auto missing = ReadText({.argument = {}, .file = "/no/such/file"}, in);
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/file"));
}

TEST(ScoreTest, SplitsAtLinesThatHoldOnlyTheSeparator) {
  EXPECT_THAT(SplitRecords("a\nb\n--\nc\n--\n", "--"), ElementsAre("a\nb", "c"));
  EXPECT_THAT(SplitRecords("a\n--\nc", "--"), ElementsAre("a", "c"));
  EXPECT_THAT(SplitRecords("a --\n-- b\n---\n--\nc", "--"), ElementsAre("a --\n-- b\n---", "c"));
  EXPECT_THAT(SplitRecords("--\na\n--\n--\n\n--\n", "--"), ElementsAre("a"));
  EXPECT_THAT(SplitRecords("a\n\n--\n\nb\n--", "--"), ElementsAre("a\n", "\nb"));
  EXPECT_THAT(SplitRecords("no separator\n", "--"), ElementsAre("no separator\n"));
  EXPECT_THAT(SplitRecords("", "--"), IsEmpty());
  EXPECT_THAT(SplitRecords("--\n", "--"), IsEmpty());
}

TEST(ScoreTest, EachRecordIsScoredBetweenSeparators) {
  ScoreCommand command;
  command.request.set_request_id("r");
  command.separator = "<|end|>";
  const auto requests = ScoreRequests(command, "a\n<|end|>\nb c\n<|end|>\n");
  ASSERT_EQ(requests.size(), 2u);
  for (const v1::ScoreRequest& request : requests) {
    EXPECT_EQ(request.context_text(), "<|end|>");
    EXPECT_TRUE(request.parse_special());
    EXPECT_EQ(request.request_id(), "r");
  }
  EXPECT_EQ(requests[0].text(), "a<|end|>");
  EXPECT_EQ(requests[1].text(), "b c<|end|>");

  command.separator.clear();
  const auto whole = ScoreRequests(command, "a\n<|end|>\n");
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].text(), "a\n<|end|>\n");
  EXPECT_FALSE(whole[0].has_context_text());
  EXPECT_FALSE(whole[0].parse_special());
}

}  // namespace
}  // namespace fermata::cli
