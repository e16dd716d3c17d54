#include "server/calls/kept_answers.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "tests/server/calls/turn_reader.h"

namespace fermata {
namespace {

std::string ReasonOf(const absl::Status& status) { return DetailsOf(status).reason; }

class KeptAnswersTest : public testing::Test {
 protected:
  static constexpr int64_t kMemory = 1 << 20;

  std::unique_ptr<KeptAnswers> Answers(absl::Duration retention, int64_t memory = kMemory) {
    return std::make_unique<KeptAnswers>(KeptAnswers::Options{
        .retention = retention, .memory_bytes = memory, .clock = [this] { return now_; }});
  }

  KeptAnswers::Make Make() {
    return [this](std::shared_ptr<TurnStream::Keeper> keeper) {
      return std::make_shared<TurnStream>(
          TurnStream::Options{.buffer_tokens = 100,
                              .model = &model_,
                              .keeper = std::move(keeper),
                              .writer = &writer_,
                              .wake = [] {},
                              .ended = [](const absl::StatusOr<TurnResult>&) {}});
    };
  }

  static v1::GenerateRequest Request(const std::string& id, const std::string& text = "Once") {
    v1::GenerateRequest request;
    request.set_request_id(id);
    request.set_text(text);
    for (int i = 0; i < 20; ++i) {
      (*request.mutable_sampling()->mutable_logit_bias())[i * 37 % 101] = 1;
    }
    return request;
  }

  // Opens a turn that must be a new one.
  std::shared_ptr<TurnStream> Begin(KeptAnswers& answers, const v1::GenerateRequest& request) {
    const auto opened = answers.Open(request, Make());
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return nullptr;
    EXPECT_TRUE(opened->is_new);
    return opened->stream;
  }
  static void End(TurnStream& stream, int tokens = 1) {
    stream.Started({});
    for (int i = 0; i < tokens; ++i) stream.Chunk(Token(i, "t"));
    TurnResult result;
    result.generated_tokens = tokens;
    stream.Completed(result);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  ModelInfo model_;
  Worker writer_{"test", 0};
};

TEST_F(KeptAnswersTest, TheSameRequestFindsItsTurnUntilTheAnswerIsOld) {
  const auto answers = Answers(absl::Seconds(60));
  const auto stream = Begin(*answers, Request("r"));
  const auto same = [&] {
    const auto opened = answers->Open(Request("r"), Make());
    return opened.ok() && !opened->is_new && opened->stream == stream;
  };
  now_ += absl::Hours(5);  // While it runs, it is not old.
  EXPECT_TRUE(same());
  End(*stream);
  now_ += absl::Seconds(59);
  EXPECT_TRUE(same());
  EXPECT_EQ(*answers->Find("", "r"), stream);
  now_ += absl::Seconds(1);
  EXPECT_EQ(ReasonOf(answers->Find("", "r").status()), "REQUEST_NOT_FOUND");
  Begin(*answers, Request("r"));
}

TEST_F(KeptAnswersTest, AnotherRequestUnderTheIdIsRefused) {
  const auto answers = Answers(absl::Seconds(60));
  const auto stream = Begin(*answers, Request("r"));
  v1::GenerateRequest other = Request("r");
  other.mutable_session()->set_id("s");
  const auto refused = [&] { return answers->Open(other, Make()).status(); };
  EXPECT_TRUE(absl::IsAlreadyExists(refused()));
  EXPECT_EQ(ReasonOf(refused()), "REQUEST_ID_REUSED");
  End(*stream);
  EXPECT_EQ(ReasonOf(refused()), "REQUEST_ID_REUSED");
  // Of another tenant it is another id.
  other.set_tenant("t");
  Begin(*answers, other);
  EXPECT_EQ(ReasonOf(answers->Find("u", "r").status()), "REQUEST_NOT_FOUND");
}

TEST_F(KeptAnswersTest, WhatDoesNotDecideOnTheAnswerMayDiffer) {
  const auto answers = Answers(absl::Seconds(60));
  const auto stream = Begin(*answers, Request("r"));
  v1::GenerateRequest again = Request("r");
  again.set_priority(3);
  again.mutable_time_limit()->set_seconds(7);
  again.set_on_disconnect(v1::ON_DISCONNECT_FINISH);
  const auto opened = answers->Open(again, Make());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE(opened->is_new);
}

TEST_F(KeptAnswersTest, ATurnWithoutEffectMayRunAgain) {
  const auto answers = Answers(absl::Seconds(60));
  Begin(*answers, Request("r"))->Failed(absl::UnavailableError("no"));
  Begin(*answers, Request("r", "Another"))->Failed(absl::UnavailableError("no"));
  Begin(*answers, Request("r"));
  EXPECT_EQ(answers->stats().answers, 1);
}

TEST_F(KeptAnswersTest, WithoutRetentionOnlyRunningTurnsAreFound) {
  const auto answers = Answers(absl::ZeroDuration());
  const auto stream = Begin(*answers, Request("r"));
  EXPECT_TRUE(answers->Find("", "r").ok());
  End(*stream);
  EXPECT_FALSE(answers->Find("", "r").ok());
  EXPECT_EQ(answers->stats().bytes, 0);
}

TEST_F(KeptAnswersTest, TheOldestAnswersMakeRoom) {
  const auto answers = Answers(absl::Hours(1));
  constexpr int kAnswers = 100;
  for (int i = 0; i < kAnswers; ++i) {
    End(*Begin(*answers, Request("r" + std::to_string(i))), 300);
    EXPECT_LE(answers->stats().bytes, kMemory);
  }
  const KeptAnswers::Stats stats = answers->stats();
  EXPECT_LT(stats.answers, kAnswers);
  EXPECT_GT(stats.answers, 1);
  EXPECT_EQ(stats.dropped, kAnswers - stats.answers);
  EXPECT_EQ(stats.limit_bytes, kMemory);
  for (int i = 0; i < kAnswers; ++i) {
    EXPECT_EQ(answers->Find("", "r" + std::to_string(i)).ok(), i >= kAnswers - stats.answers) << i;
  }
}

TEST_F(KeptAnswersTest, ARunningTurnThatIsTooLongIsKeptByItsIdAlone) {
  const auto answers = Answers(absl::Hours(1));
  const auto stream = Begin(*answers, Request("long"));
  End(*stream, 100000);
  EXPECT_LE(answers->stats().bytes, kMemory);
  // It ran, so the same request must not run again.
  const auto again = answers->Open(Request("long"), Make());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->is_new);
  TurnReader reader;
  EXPECT_EQ(ReasonOf(again->stream->Attach(&reader, 0)), "REQUEST_NOT_FOUND");
}

TEST_F(KeptAnswersTest, NothingIsLeftOfAnswersThatWent) {
  const auto answers = Answers(absl::Seconds(60));
  std::weak_ptr<TurnStream> watch;
  {
    const auto stream = Begin(*answers, Request("r"));
    End(*stream);
    watch = stream;
  }
  EXPECT_FALSE(watch.expired());
  now_ += absl::Minutes(2);
  EXPECT_EQ(answers->stats().answers, 0);
  EXPECT_EQ(answers->stats().bytes, 0);
  // The writer may still be about to tell its end.
  while (!watch.expired()) std::this_thread::yield();
}

// Many clients send the same few requests over and over: each runs once at a time, and every reader
// gets whole answers.
TEST_F(KeptAnswersTest, FromManyThreadsATurnRunsOnce) {
  const auto answers = Answers(absl::Hours(1), int64_t{1} << 30);
  constexpr int kThreads = 8;
  constexpr int kIds = 50;
  std::atomic<int> runs = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int id = 0; id < kIds; ++id) {
        const auto opened = answers->Open(Request(std::to_string(id)), Make());
        ASSERT_TRUE(opened.ok());
        TurnReader reader;
        ASSERT_TRUE(opened->stream->Attach(&reader, 0).ok());
        if (opened->is_new) {
          ++runs;
          End(*opened->stream, 20);
        }
        const TurnReader::All all = reader.ReadAll(*opened->stream);
        if (all.status.ok()) {
          EXPECT_EQ(all.ids.size(), 20u);
        } else {
          EXPECT_EQ(ReasonOf(all.status), "REQUEST_TAKEN_UP");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, kIds);
}

}  // namespace
}  // namespace fermata
