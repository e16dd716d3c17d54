#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const TimeLimits kLimits = {.fallback = absl::Minutes(10), .longest = absl::Hours(1)};

// The field that an error names; empty when there is none.
std::string FieldOf(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  if (status.code() != absl::StatusCode::kInvalidArgument) return "";
  const auto field = details.metadata.find("field");
  return field == details.metadata.end() ? "" : field->second;
}

template <typename Proto>
struct BadCase {
  std::string field;
  std::function<void(Proto&)> spoil;
};

// Each case alone must be refused, by the name of its field.
template <typename Proto, typename Convert>
void ExpectRefused(const std::vector<BadCase<Proto>>& cases, Convert convert) {
  for (size_t i = 0; i < cases.size(); ++i) {
    Proto proto;
    cases[i].spoil(proto);
    EXPECT_EQ(FieldOf(convert(proto).status()), cases[i].field)
        << "case " << i << ": " << proto.ShortDebugString();
  }
}

TEST(ToTurnRequestTest, UnsetFieldsTakeTheDefaults) {
  v1::GenerateRequest proto;
  proto.set_text("Once");
  const auto turn = ToTurnRequest(proto, kLimits);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(turn->prompt.text, "Once");
  EXPECT_FALSE(turn->session.has_value());
  EXPECT_FALSE(turn->seed_given);
  EXPECT_FALSE(turn->ignore_eos);
  EXPECT_EQ(turn->time_limit, absl::Minutes(10));
  // As generation.proto says.
  EXPECT_EQ(turn->sampling.temperature, 1.0);
  EXPECT_EQ(turn->sampling.top_k, 0);
  EXPECT_EQ(turn->sampling.top_p, 1.0);
  EXPECT_EQ(turn->sampling.min_p, 0.0);
  EXPECT_EQ(turn->sampling.repetition_penalty, 1.0);
  EXPECT_EQ(turn->sampling.presence_penalty, 0.0);
  EXPECT_EQ(turn->sampling.frequency_penalty, 0.0);
  EXPECT_EQ(turn->sampling.penalty_window, 256);
  EXPECT_EQ(turn->sampling.max_new_tokens, 128);
  EXPECT_EQ(turn->sampling.min_new_tokens, 0);
  EXPECT_EQ(turn->sampling.logprobs, -1);
}

TEST(ToTurnRequestTest, ZeroIsNotUnset) {
  v1::GenerateRequest proto;
  v1::SamplingParams& sampling = *proto.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_penalty_window(0);
  sampling.set_max_new_tokens(0);
  sampling.set_repetition_penalty(0);
  sampling.set_top_p(0);
  sampling.set_logprobs(0);
  sampling.set_seed(0);
  const auto turn = ToTurnRequest(proto, kLimits);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(turn->sampling.temperature, 0);
  EXPECT_EQ(turn->sampling.penalty_window, 0);
  EXPECT_EQ(turn->sampling.max_new_tokens, 0);
  EXPECT_EQ(turn->sampling.repetition_penalty, 0);
  EXPECT_EQ(turn->sampling.top_p, 0);
  EXPECT_EQ(turn->sampling.logprobs, 0);
  EXPECT_EQ(turn->sampling.seed, 0u);
  EXPECT_TRUE(turn->seed_given);
}

TEST(ToTurnRequestTest, EveryFieldArrives) {
  v1::GenerateRequest proto;
  proto.set_request_id("r 1");
  proto.set_priority(-3);
  proto.set_tenant("acme");
  proto.mutable_token_ids()->add_ids(4);
  proto.mutable_token_ids()->add_ids(2);
  proto.set_parse_special(true);
  proto.mutable_session()->set_id("s-1");
  proto.mutable_session()->set_create_if_missing(true);
  proto.mutable_session()->set_expected_position(9);
  proto.mutable_session()->mutable_time_to_live()->set_seconds(60);
  proto.mutable_time_limit()->set_nanos(5'000'000);
  v1::SamplingParams& sampling = *proto.mutable_sampling();
  sampling.set_temperature(0.5);
  sampling.set_top_k(40);
  sampling.set_top_p(0.75);
  sampling.set_min_p(0.125);
  sampling.set_repetition_penalty(1.5);
  sampling.set_presence_penalty(-0.5);
  sampling.set_frequency_penalty(0.25);
  sampling.set_penalty_window(64);
  (*sampling.mutable_logit_bias())[7] = -100;
  sampling.set_seed(18446744073709551615u);
  sampling.set_max_new_tokens(20);
  sampling.set_min_new_tokens(3);
  sampling.add_stop_token_ids(5);
  sampling.set_ignore_eos(true);
  sampling.add_stop("\n");
  sampling.set_logprobs(3);

  const auto turn = ToTurnRequest(proto, kLimits);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(turn->request_id, "r 1");
  EXPECT_EQ(turn->claim.priority, -3);
  EXPECT_EQ(turn->claim.tenant, "acme");
  EXPECT_EQ(turn->prompt.text, "");
  EXPECT_THAT(turn->prompt.token_ids, ElementsAre(4, 2));
  EXPECT_TRUE(turn->prompt.parse_special);
  ASSERT_TRUE(turn->session.has_value());
  EXPECT_EQ(turn->session->id, "s-1");
  EXPECT_TRUE(turn->session->create_if_missing);
  EXPECT_EQ(turn->session->expected_position, 9);
  EXPECT_EQ(turn->session->ttl, absl::Minutes(1));
  EXPECT_EQ(turn->time_limit, absl::Milliseconds(5));
  EXPECT_EQ(turn->sampling.temperature, 0.5);
  EXPECT_EQ(turn->sampling.top_k, 40);
  EXPECT_EQ(turn->sampling.top_p, 0.75);
  EXPECT_EQ(turn->sampling.min_p, 0.125);
  EXPECT_EQ(turn->sampling.repetition_penalty, 1.5);
  EXPECT_EQ(turn->sampling.presence_penalty, -0.5);
  EXPECT_EQ(turn->sampling.frequency_penalty, 0.25);
  EXPECT_EQ(turn->sampling.penalty_window, 64);
  EXPECT_THAT(turn->sampling.logit_bias, UnorderedElementsAre(Pair(7, -100.0f)));
  EXPECT_EQ(turn->sampling.seed, 18446744073709551615u);
  EXPECT_TRUE(turn->seed_given);
  EXPECT_EQ(turn->sampling.max_new_tokens, 20);
  EXPECT_EQ(turn->sampling.min_new_tokens, 3);
  EXPECT_THAT(turn->sampling.stop_token_ids, ElementsAre(5));
  EXPECT_TRUE(turn->ignore_eos);
  EXPECT_THAT(turn->sampling.stop, ElementsAre("\n"));
  EXPECT_EQ(turn->sampling.logprobs, 3);
}

TEST(ToTurnRequestTest, TimeLimitIsCutToTheServersOwn) {
  v1::GenerateRequest proto;
  proto.mutable_time_limit()->set_seconds(86400);
  EXPECT_EQ(ToTurnRequest(proto, kLimits)->time_limit, absl::Hours(1));
  EXPECT_EQ(ToTurnRequest(proto, TimeLimits())->time_limit, absl::Hours(24));
}

TEST(ToTurnRequestTest, ASessionWithoutAnIdMustBeAllowedToBeMade) {
  v1::GenerateRequest proto;
  proto.mutable_session()->set_create_if_missing(true);
  EXPECT_TRUE(ToTurnRequest(proto, kLimits).ok());
}

TEST(ToTurnRequestTest, BadValuesNameTheirField) {
  using Proto = v1::GenerateRequest;
  const std::vector<BadCase<Proto>> cases = {
      {"request_id", [](Proto& p) { p.set_request_id(std::string(129, 'a')); }},
      {"request_id", [](Proto& p) { p.set_request_id("a\nb"); }},
      {"request_id", [](Proto& p) { p.set_request_id("caf\xC3\xA9"); }},
      {"request_id", [](Proto& p) { p.set_request_id(std::string("a\0b", 3)); }},
      {"request_id", [](Proto& p) { p.set_request_id("\x7F"); }},
      {"session.id", [](Proto& p) { p.mutable_session(); }},
      {"session.id", [](Proto& p) { p.mutable_session()->set_id("-a"); }},
      {"session.id", [](Proto& p) { p.mutable_session()->set_id("a/b"); }},
      {"session.id", [](Proto& p) { p.mutable_session()->set_id(std::string(129, 'a')); }},
      {"session.expected_position",
       [](Proto& p) {
         p.mutable_session()->set_id("a");
         p.mutable_session()->set_expected_position(-1);
       }},
      {"session.time_to_live",
       [](Proto& p) {
         p.mutable_session()->set_id("a");
         p.mutable_session()->mutable_time_to_live()->set_nanos(999'999'999);
       }},
      {"session.time_to_live",
       [](Proto& p) {
         p.mutable_session()->set_id("a");
         p.mutable_session()->mutable_time_to_live()->set_seconds(315'576'000'000);
       }},
      {"time_limit", [](Proto& p) { p.mutable_time_limit(); }},
      {"time_limit", [](Proto& p) { p.mutable_time_limit()->set_seconds(-1); }},
      {"time_limit", [](Proto& p) { p.mutable_time_limit()->set_nanos(-1); }},
      {"time_limit", [](Proto& p) { p.mutable_time_limit()->set_seconds(315'576'000'001); }},
      {"time_limit", [](Proto& p) { p.mutable_time_limit()->set_nanos(1'000'000'000); }},
      {"time_limit",
       [](Proto& p) {
         p.mutable_time_limit()->set_seconds(1);
         p.mutable_time_limit()->set_nanos(-1);
       }},
      {"time_limit",
       [](Proto& p) { p.mutable_time_limit()->set_seconds(std::numeric_limits<int64_t>::min()); }},
  };
  ExpectRefused(cases, [](const Proto& proto) { return ToTurnRequest(proto, kLimits); });
}

TEST(ToTurnRequestTest, NaNReachesTheEnginesValidation) {
  v1::GenerateRequest proto;
  proto.mutable_sampling()->set_top_p(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(FieldOf(ValidateSampling(ToTurnRequest(proto, kLimits)->sampling, 16)),
            "sampling.top_p");
}

TEST(ToScoreRequestTest, EveryFieldArrives) {
  v1::ScoreRequest proto;
  proto.set_request_id("r");
  proto.set_priority(4);
  proto.set_tenant("t");
  proto.set_context_text("a");
  proto.mutable_token_ids()->add_ids(3);
  proto.set_parse_special(true);
  proto.set_top_logprobs(5);
  const auto score = ToScoreRequest(proto);
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_EQ(score->request_id, "r");
  EXPECT_EQ(score->claim.priority, 4);
  EXPECT_EQ(score->claim.tenant, "t");
  EXPECT_EQ(score->context.text, "a");
  EXPECT_TRUE(score->context.parse_special);
  EXPECT_THAT(score->input.token_ids, ElementsAre(3));
  EXPECT_TRUE(score->input.parse_special);
  EXPECT_EQ(score->top_logprobs, 5);

  proto.mutable_context_token_ids()->add_ids(8);
  EXPECT_THAT(ToScoreRequest(proto)->context.token_ids, ElementsAre(8));
  proto.set_request_id("\t");
  EXPECT_EQ(FieldOf(ToScoreRequest(proto).status()), "request_id");
}

TEST(ToCreateOptionsTest, ConvertsAndRefuses) {
  using Proto = v1::CreateSessionRequest;
  Proto good;
  good.set_id("a:b");
  (*good.mutable_labels())["user"] = "7";
  good.mutable_time_to_live()->set_seconds(1);
  const auto options = ToCreateOptions(good);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->id, "a:b");
  EXPECT_THAT(options->labels, ElementsAre(Pair("user", "7")));
  EXPECT_EQ(options->ttl, absl::Seconds(1));

  const std::vector<BadCase<Proto>> cases = {
      {"id", [](Proto& p) { p.set_id(" "); }},
      {"labels", [](Proto& p) { (*p.mutable_labels())[""] = "x"; }},
      {"labels", [](Proto& p) { (*p.mutable_labels())["k"] = std::string(256, 'x'); }},
      {"labels",
       [](Proto& p) {
         for (int i = 0; i < 33; ++i) (*p.mutable_labels())["k" + std::to_string(i)] = "x";
       }},
      {"time_to_live", [](Proto& p) { p.mutable_time_to_live(); }},
      {"time_to_live", [](Proto& p) { p.mutable_time_to_live()->set_seconds(-5); }},
  };
  for (const auto& bad : cases) {
    Proto proto;
    bad.spoil(proto);
    // Labels may be named with their key.
    EXPECT_THAT(FieldOf(ToCreateOptions(proto).status()), testing::StartsWith(bad.field));
  }
}

TEST(ToListOptionsTest, ConvertsAndRefuses) {
  using Proto = v1::ListSessionsRequest;
  EXPECT_EQ(ToListOptions(Proto())->page_size, 100);
  Proto good;
  good.set_page_size(1000);
  good.set_page_token("t");
  (*good.mutable_labels())["a"] = "b";
  const auto options = ToListOptions(good);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->page_size, 1000);
  EXPECT_EQ(options->page_token, "t");
  EXPECT_THAT(options->labels, ElementsAre(Pair("a", "b")));
  const std::vector<BadCase<Proto>> cases = {
      {"page_size", [](Proto& p) { p.set_page_size(-1); }},
      {"page_size", [](Proto& p) { p.set_page_size(1001); }},
  };
  ExpectRefused(cases, ToListOptions);
}

TEST(ToUpdateOptionsTest, UnsetZeroAndSetDiffer) {
  v1::UpdateSessionRequest proto;
  auto options = ToUpdateOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->labels.has_value());
  EXPECT_FALSE(options->ttl.has_value());

  proto.mutable_labels();
  proto.mutable_time_to_live();
  options = ToUpdateOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_TRUE(options->labels.has_value());
  EXPECT_TRUE(options->labels->empty());
  ASSERT_TRUE(options->ttl.has_value());
  EXPECT_FALSE(options->ttl->has_value());

  (*proto.mutable_labels()->mutable_values())["a"] = "b";
  proto.mutable_time_to_live()->set_seconds(2);
  options = ToUpdateOptions(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(*options->labels, ElementsAre(Pair("a", "b")));
  EXPECT_EQ(**options->ttl, absl::Seconds(2));

  proto.mutable_time_to_live()->set_seconds(0);
  proto.mutable_time_to_live()->set_nanos(1);
  EXPECT_EQ(FieldOf(ToUpdateOptions(proto).status()), "time_to_live");
}

}  // namespace
}  // namespace fermata
