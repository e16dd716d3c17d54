// Bad requests: each field, out of its range, is refused by name and harms nothing.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/shared_server.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RequestsTest : public SharedServerTest {
 protected:
  void ExpectInvalidField(const absl::Status& status, const std::string& field) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    EXPECT_EQ(Reason(status), "INVALID_FIELD") << field;
    EXPECT_THAT(Metadata(status, "field"), StartsWith(field)) << status;
  }

  void ExpectUnharmed() {
    EXPECT_TRUE(server().running());
    RunOk(client(), Greedy("All is", 3));
    EXPECT_TRUE(client().ListAllSessions()->empty()) << "a refused request made a session";
  }
};

using BadSampling = std::pair<std::string, std::function<void(v1::SamplingParams&)>>;
using BadGenerate = std::pair<std::string, std::function<void(v1::GenerateRequest&)>>;

template <typename Setter, typename Value>
void AddEach(std::vector<BadSampling>* cases, const std::string& field, Setter set,
             const std::vector<Value>& values) {
  for (const Value value : values) {
    cases->emplace_back(field, [set, value](v1::SamplingParams& s) { (s.*set)(value); });
  }
}

std::vector<BadSampling> BadSamplings(int32_t vocab_size) {
  using S = v1::SamplingParams;
  using Floats = std::vector<float>;
  using Ints = std::vector<int32_t>;
  std::vector<BadSampling> cases;
  AddEach(&cases, "temperature", &S::set_temperature, Floats{-1, 100.5f, kNan, kInfinity});
  AddEach(&cases, "top_k", &S::set_top_k, Ints{-1});
  AddEach(&cases, "top_p", &S::set_top_p, Floats{0, -0.5f, 1.5f, kNan});
  AddEach(&cases, "min_p", &S::set_min_p, Floats{-0.1f, 1, kNan});
  AddEach(&cases, "repetition_penalty", &S::set_repetition_penalty, Floats{0, -1, kNan, kInfinity});
  AddEach(&cases, "presence_penalty", &S::set_presence_penalty, Floats{-101, 101, kNan});
  AddEach(&cases, "frequency_penalty", &S::set_frequency_penalty, Floats{-101, 101, kNan});
  AddEach(&cases, "penalty_window", &S::set_penalty_window, Ints{-1, 4097});
  AddEach(&cases, "max_new_tokens", &S::set_max_new_tokens, Ints{-1, (1 << 20) + 1});
  AddEach(&cases, "min_new_tokens", &S::set_min_new_tokens, Ints{-1, 1 << 20});
  AddEach(&cases, "logprobs", &S::set_logprobs, Ints{-2, 21});
  for (const int32_t id : {-1, vocab_size}) {
    cases.emplace_back("stop_token_ids", [id](S& s) { s.add_stop_token_ids(id); });
    cases.emplace_back("logit_bias", [id](S& s) { (*s.mutable_logit_bias())[id] = 1; });
  }
  for (const float bias : {-101.0f, 101.0f, kNan}) {
    cases.emplace_back("logit_bias", [bias](S& s) { (*s.mutable_logit_bias())[1] = bias; });
  }
  cases.emplace_back("logit_bias", [](S& s) {
    for (int32_t id = 0; id <= 1024; ++id) (*s.mutable_logit_bias())[id] = 1;
  });
  cases.emplace_back("stop_token_ids", [](S& s) {
    for (int32_t id = 0; id <= 64; ++id) s.add_stop_token_ids(id);
  });
  cases.emplace_back("stop", [](S& s) { s.add_stop(""); });
  cases.emplace_back("stop", [](S& s) { s.add_stop(std::string(257, 'x')); });
  cases.emplace_back("stop", [](S& s) {
    for (int i = 0; i <= 16; ++i) s.add_stop("x" + std::to_string(i));
  });
  return cases;
}

std::vector<BadGenerate> BadGenerates(int32_t vocab_size) {
  using G = v1::GenerateRequest;
  std::vector<BadGenerate> cases = {
      {"request_id", [](G& r) { r.set_request_id(std::string(129, 'x')); }},
      {"request_id", [](G& r) { r.set_request_id("two\nlines"); }},
      {"request_id", [](G& r) { r.set_request_id("é"); }},
      {"prompt",
       [](G& r) {
         r.set_text("");
         r.clear_session();
       }},
      {"prompt", [](G& r) { r.clear_prompt(); }},  // On a session that has no tokens yet.
      {"token_ids", [](G& r) { r.mutable_token_ids()->add_ids(-1); }},
      {"token_ids", [=](G& r) { r.mutable_token_ids()->add_ids(vocab_size); }},
      {"session.id", [](G& r) { r.mutable_session()->set_id(std::string(129, 'x')); }},
      {"session.id", [](G& r) { r.mutable_session()->set_id("no spaces"); }},
      {"session.id", [](G& r) { r.mutable_session()->set_id(".hidden"); }},
      {"session.id", [](G& r) { r.mutable_session()->set_id("é"); }},
      {"session.id",
       [](G& r) {
         r.mutable_session()->clear_id();
         r.mutable_session()->set_create_if_missing(false);
       }},
      {"session.expected_position", [](G& r) { r.mutable_session()->set_expected_position(-1); }},
      {"session.time_to_live", [](G& r) { r.mutable_session()->mutable_time_to_live(); }},
      {"session.time_to_live",
       [](G& r) { r.mutable_session()->mutable_time_to_live()->set_seconds(-5); }},
      {"session.time_to_live",
       [](G& r) { r.mutable_session()->mutable_time_to_live()->set_nanos(999'999'999); }},
      {"session.time_to_live",
       [](G& r) { r.mutable_session()->mutable_time_to_live()->set_nanos(2'000'000'000); }},
      {"session.time_to_live",
       [](G& r) {
         r.mutable_session()->mutable_time_to_live()->set_seconds(
             std::numeric_limits<int64_t>::max());
       }},
      {"time_limit", [](G& r) { r.mutable_time_limit(); }},
      {"time_limit", [](G& r) { r.mutable_time_limit()->set_seconds(-1); }},
      {"time_limit",
       [](G& r) { r.mutable_time_limit()->set_seconds(std::numeric_limits<int64_t>::min()); }},
  };
  for (const auto& [field, spoil] : BadSamplings(vocab_size)) {
    cases.emplace_back("sampling." + field,
                       [spoil = spoil](G& r) { spoil(*r.mutable_sampling()); });
  }
  return cases;
}

TEST_F(RequestsTest, GenerateRefusesEveryBadField) {
  const auto vocab_size = static_cast<int32_t>(client().GetModel()->vocab_size());
  for (const auto& [field, spoil] : BadGenerates(vocab_size)) {
    v1::GenerateRequest request = On("spoilt", Greedy("Once", 5));
    spoil(request);
    const Turn turn = RunTurn(client(), request);
    ExpectInvalidField(turn.status, field);
    EXPECT_TRUE(turn.started.model().empty()) << field << " was refused too late";
  }
  ExpectUnharmed();
}

TEST_F(RequestsTest, BoundsThemselvesAreAllowed) {
  v1::GenerateRequest request = Greedy("Once", 2);
  v1::SamplingParams& s = *request.mutable_sampling();
  s.set_temperature(100);
  s.set_top_k(std::numeric_limits<int32_t>::max());
  s.set_top_p(std::numeric_limits<float>::min());
  s.set_min_p(0.999f);
  s.set_repetition_penalty(100);
  s.set_presence_penalty(-100);
  s.set_frequency_penalty(100);
  s.set_penalty_window(4096);
  s.set_min_new_tokens(2);
  s.set_logprobs(20);
  for (int32_t id = 0; id < 64; ++id) s.add_stop_token_ids(id);
  for (int32_t id = 0; id < 1024; ++id) (*s.mutable_logit_bias())[id] = id % 2 == 0 ? 100 : -100;
  for (int i = 0; i < 16; ++i) s.add_stop(std::string(256, static_cast<char>('a' + i)));
  request.set_request_id(std::string(128, '~'));
  RunOk(client(), request);
}

TEST_F(RequestsTest, ScoreRefusesEveryBadField) {
  using R = v1::ScoreRequest;
  const auto vocab_size = static_cast<int32_t>(client().GetModel()->vocab_size());
  const std::vector<std::pair<std::string, std::function<void(R&)>>> cases = {
      {"request_id", [](R& r) { r.set_request_id(std::string(129, 'x')); }},
      {"context_token_ids", [](R& r) { r.mutable_context_token_ids()->add_ids(-1); }},
      {"token_ids", [=](R& r) { r.mutable_token_ids()->add_ids(vocab_size); }},
      {"input", [](R& r) { r.set_text(""); }},
      {"input", [](R& r) { r.clear_input(); }},
      {"top_logprobs", [](R& r) { r.set_top_logprobs(-1); }},
      {"top_logprobs", [](R& r) { r.set_top_logprobs(21); }},
  };
  for (const auto& [field, spoil] : cases) {
    R request;
    request.set_context_text("Once");
    request.set_text(" upon a time");
    ASSERT_TRUE(client().Score(request).ok());
    spoil(request);
    ExpectInvalidField(client().Score(request).status(), field);
  }
  ExpectUnharmed();
}

TEST_F(RequestsTest, DetokenizeRefusesForeignIds) {
  for (const int32_t id : {-1, static_cast<int32_t>(client().GetModel()->vocab_size())}) {
    v1::DetokenizeRequest request;
    request.add_token_ids(id);
    ExpectInvalidField(client().Detokenize(request).status(), "token_ids");
  }
  ExpectUnharmed();
}

TEST_F(RequestsTest, SessionsRefuseEveryBadField) {
  using C = v1::CreateSessionRequest;
  const std::vector<std::pair<std::string, std::function<void(C&)>>> creates = {
      {"id", [](C& r) { r.set_id("a/b"); }},
      {"id", [](C& r) { r.set_id("-a"); }},
      {"labels", [](C& r) { (*r.mutable_labels())[""] = "v"; }},
      {"labels", [](C& r) { (*r.mutable_labels())[std::string(64, 'k')] = "v"; }},
      {"labels", [](C& r) { (*r.mutable_labels())["k"] = std::string(256, 'v'); }},
      {"labels",
       [](C& r) {
         for (int i = 0; i <= 32; ++i) (*r.mutable_labels())["k" + std::to_string(i)] = "v";
       }},
      {"time_to_live", [](C& r) { r.mutable_time_to_live(); }},
      {"time_to_live", [](C& r) { r.mutable_time_to_live()->set_seconds(-1); }},
  };
  for (const auto& [field, spoil] : creates) {
    C request;
    spoil(request);
    ExpectInvalidField(client().CreateSession(request).status(), field);
  }
  v1::ListSessionsRequest list;
  for (const int32_t size : {-1, 1001}) {
    list.set_page_size(size);
    ExpectInvalidField(client().ListSessions(list).status(), "page_size");
  }
  list.set_page_size(0);
  list.set_page_token("forged");
  ExpectInvalidField(client().ListSessions(list).status(), "page_token");
  for (const std::string& id : {std::string(), std::string("a b")}) {
    ExpectInvalidField(client().GetSession(id).status(), "id");
    ExpectInvalidField(client().DeleteSession(id), "id");
    v1::UpdateSessionRequest update;
    update.set_id(id);
    ExpectInvalidField(client().UpdateSession(update).status(), "id");
  }
  ExpectUnharmed();
}

TEST_F(RequestsTest, UpdateRefusesBadFieldsAndChangesNothing) {
  v1::CreateSessionRequest create;
  create.set_id("target");
  (*create.mutable_labels())["k"] = "v";
  ASSERT_TRUE(client().CreateSession(create).ok());
  const std::string before = client().GetSession("target")->DebugString();
  v1::UpdateSessionRequest update;
  update.set_id("target");
  (*update.mutable_labels()->mutable_values())["k"] = std::string(256, 'v');
  ExpectInvalidField(client().UpdateSession(update).status(), "labels");
  (*update.mutable_labels()->mutable_values())["k"] = "new";
  update.mutable_time_to_live()->set_seconds(-1);
  ExpectInvalidField(client().UpdateSession(update).status(), "time_to_live");
  EXPECT_EQ(client().GetSession("target")->DebugString(), before);
  ASSERT_TRUE(client().DeleteSession("target").ok());
}

TEST_F(RequestsTest, AMessageThatIsTooLongIsRefused) {
  const Turn turn = RunTurn(client(), Greedy(std::string(5 << 20, 'x'), 1));
  EXPECT_TRUE(absl::IsResourceExhausted(turn.status)) << turn.status;
  ExpectUnharmed();
}

}  // namespace
}  // namespace fermata::e2e
