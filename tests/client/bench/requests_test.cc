#include "client/bench/requests.h"

#include <set>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace fermata::bench {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;
using ::testing::Lt;

v1::Model SmallModel() {
  v1::Model model;
  model.set_vocab_size(50);
  for (const int32_t id : {0, 1, 49}) model.add_eos_token_ids(id);
  return model;
}

bool Same(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

TEST(RequestsTest, DependOnSeedAndNumberAlone) {
  Options options{.prompt_tokens = {5, 9}, .generate_tokens = {2, 4}};
  const RequestMaker maker(options, {}, SmallModel());
  Options other_options = options;
  other_options.seed = 2;
  const RequestMaker other(other_options, {}, SmallModel());
  std::set<int> prompts, generated;
  for (int number = 0; number < 200; ++number) {
    const v1::GenerateRequest request = maker.Make(number, {}, std::nullopt);
    EXPECT_TRUE(Same(request, maker.Make(number, {.seconds = 5}, std::nullopt)));
    EXPECT_FALSE(Same(request, maker.Make(number + 1, {}, std::nullopt)));
    EXPECT_FALSE(Same(request, other.Make(number, {}, std::nullopt)));
    // No token ends a text.
    EXPECT_THAT(request.token_ids().ids(), Each(AllOf(Ge(2), Lt(49))));
    EXPECT_TRUE(request.sampling().ignore_eos());
    EXPECT_FALSE(request.has_session());
    prompts.insert(request.token_ids().ids_size());
    generated.insert(request.sampling().max_new_tokens());
  }
  EXPECT_EQ(prompts, (std::set<int>{5, 6, 7, 8, 9}));
  EXPECT_EQ(generated, (std::set<int>{2, 3, 4}));
}

TEST(RequestsTest, TracesSayTheLengthsAndEqualBlocksAreEqual) {
  Options options{.load = LoadKind::kTrace};
  const RequestMaker maker(options, {}, SmallModel());
  const TraceEntry first{.prompt_tokens = 600, .generate_tokens = 7, .blocks = {4, 5}};
  const TraceEntry second{.prompt_tokens = 1000, .generate_tokens = 3, .blocks = {4, 6}};
  const auto a = maker.Make(0, {.entry = &first}, std::nullopt);
  const auto b = maker.Make(1, {.entry = &second}, std::nullopt);
  EXPECT_EQ(a.token_ids().ids_size(), 600);
  EXPECT_EQ(b.token_ids().ids_size(), 1000);
  EXPECT_EQ(a.sampling().max_new_tokens(), 7);
  const auto& ids_a = a.token_ids().ids();
  const auto& ids_b = b.token_ids().ids();
  EXPECT_TRUE(std::equal(ids_a.begin(), ids_a.begin() + 512, ids_b.begin()));
  EXPECT_FALSE(std::equal(ids_a.begin() + 512, ids_a.end(), ids_b.begin() + 512));
  const TraceEntry none{.prompt_tokens = 0};
  EXPECT_EQ(maker.Make(2, {.entry = &none}, std::nullopt).token_ids().ids_size(), 1);
}

TEST(RequestsTest, SessionsGoThroughDialogues) {
  Options options;
  const RequestMaker maker(options, {{"a", "b"}, {"c"}, {"d", "e"}}, SmallModel());
  std::string said;
  for (int turn = 0; turn < 7; ++turn) {
    const auto request = maker.Make(
        turn, {}, SessionTurn{.place = 0, .id = "s", .turn = turn, .dialogue = 3 * 5 + 1});
    EXPECT_EQ(request.session().id(), "s");
    EXPECT_TRUE(request.session().create_if_missing());
    said += request.text();
  }
  EXPECT_EQ(said, "cdeabcd");
  std::set<std::string> alone;
  for (int i = 0; i < 100; ++i) alone.insert(maker.Make(i, {}, std::nullopt).text());
  EXPECT_EQ(alone, (std::set<std::string>{"a", "b", "c", "d", "e"}));
}

TEST(SessionPoolTest, ASessionIsInOneTurnAtATime) {
  SessionPool pool({.size = 3, .prefix = "p-"});
  std::set<std::string> ids;
  std::vector<SessionTurn> turns;
  for (int i = 0; i < 3; ++i) {
    turns.push_back(*pool.Take());
    EXPECT_EQ(turns.back().turn, 0);
    ids.insert(turns.back().id);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"p-0", "p-1", "p-2"}));
  EXPECT_FALSE(pool.Take());
  pool.Release(turns[1], true);
  const auto again = pool.Take();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, turns[1].id);
  EXPECT_EQ(again->turn, 1);
  EXPECT_EQ(again->dialogue, turns[1].dialogue);
}

TEST(SessionPoolTest, AfterItsTurnsANewSessionFollows) {
  SessionPool pool({.size = 1, .turns = 2, .prefix = "p-"});
  std::vector<std::pair<std::string, int64_t>> turns;
  for (const bool ok : {true, false, true, true}) {
    const auto turn = pool.Take();
    turns.emplace_back(turn->id, turn->turn);
    pool.Release(*turn, ok);
  }
  // The turn that failed is taken again.
  EXPECT_EQ(turns, (std::vector<std::pair<std::string, int64_t>>{
                       {"p-0", 0}, {"p-0", 1}, {"p-0", 1}, {"p-1", 0}}));
  EXPECT_EQ(pool.made(), (std::vector<std::string>{"p-0", "p-1"}));
}

TEST(SessionPoolTest, ChoosesByWeight) {
  for (const double zipf : {0.0, 1.0}) {
    SessionPool pool({.size = 4, .zipf = zipf, .seed = 9});
    std::vector<double> counts(4);
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const auto turn = pool.Take();
      ++counts[turn->place];
      pool.Release(*turn, true);
    }
    const double sum = zipf == 0 ? 4 : 1 + 1. / 2 + 1. / 3 + 1. / 4;
    for (int i = 0; i < 4; ++i) {
      const double expected = (zipf == 0 ? 1 : 1.0 / (i + 1)) / sum;
      EXPECT_NEAR(counts[i] / kDraws, expected, 0.02) << zipf << " " << i;
    }
  }
}

TEST(TokenRangeTest, ParsesNumbersAndRanges) {
  EXPECT_EQ(*ParseTokenRange("7"), (TokenRange{7, 7}));
  EXPECT_EQ(*ParseTokenRange("0:1048576"), (TokenRange{0, 1048576}));
  for (const char* text : {"", ":", "1:", ":2", "3:2", "-1", "1.5", "1:2:3", "1048577", "x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTokenRange(text).status())) << text;
  }
}

}  // namespace
}  // namespace fermata::bench
