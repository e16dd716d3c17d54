#include "server/calls/turn_stream.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "tests/server/calls/turn_reader.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

// Pays for as much as it is told to.
class Purse : public TurnStream::Keeper {
 public:
  explicit Purse(int64_t bytes) : left_(bytes) {}
  bool Add(int64_t bytes) override { return (left_ -= bytes) >= 0; }
  void Ended(bool had_effect) override { ends.push_back(had_effect); }
  std::vector<bool> ends;

 private:
  int64_t left_;
};
constexpr int64_t kPlenty = int64_t{1} << 30;

TurnResult Result(FinishReason reason, int generated) {
  TurnResult result;
  result.reason = reason;
  result.generated_tokens = generated;
  return result;
}

std::string ReasonOf(const absl::Status& status) { return DetailsOf(status).reason; }

class Handle : public RequestHandle {
 public:
  void Cancel() override { ++cancels; }
  std::atomic<int> cancels = 0;
};

class TurnStreamTest : public testing::Test {
 protected:
  TurnStreamTest() {
    model_.name = "tale";
    Make({});
    EXPECT_TRUE(stream_->Attach(&reader_, 0).ok());
    wakes_ = 0;
  }

  // A stream that nobody reads yet.
  void Make(TurnStream::Options options) {
    options.buffer_tokens = 3;
    options.model = &model_;
    options.request_id = "r";
    options.writer = &writer_;
    options.wake = [this] { ++wakes_; };
    options.ended = [this](const absl::StatusOr<TurnResult>& result) {
      ended_.push_back(result.status());
    };
    stream_ = std::make_shared<TurnStream>(options);
    stream_->SetHandle(handle_);
  }

  // Until all that was posted to the writer has run.
  void Settle() {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    writer_.Post([&] {
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }

  ModelInfo model_;
  TurnReader reader_;
  std::atomic<int> wakes_ = 0;
  std::vector<absl::Status> ended_;
  std::shared_ptr<Handle> handle_ = std::make_shared<Handle>();
  std::shared_ptr<TurnStream> stream_;
  Worker writer_{"test", 0};  // Ends first.
};

TEST_F(TurnStreamTest, SendsStartedChunksAndComplete) {
  stream_->Started({.session_id = "s", .position = 100});
  const v1::Started started = reader_.Message(1).started();
  EXPECT_EQ(started.session_id(), "s");
  EXPECT_EQ(started.position(), 100);
  EXPECT_EQ(started.model(), "tale");
  EXPECT_EQ(started.request_id(), "r");
  stream_->WriteDone(&reader_, true);
  stream_->Chunk(Token(0, "a"));
  EXPECT_EQ(reader_.Message(2).chunk().text(), "a");
  stream_->WriteDone(&reader_, true);
  TurnResult result;
  result.reason = FinishReason::kLength;
  stream_->Completed(result);
  EXPECT_EQ(reader_.Message(3).complete().finish_reason(), v1::LENGTH);
  EXPECT_TRUE(reader_.WaitForEnd().ok());
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(handle_->cancels, 0);
}

TEST_F(TurnStreamTest, OneWriteIsOutstandingAndTokensGatherMeanwhile) {
  stream_->Started({});
  reader_.Message(1);
  stream_->Chunk(Token(0, "a"));
  stream_->Chunk(Token(1, "b"));
  stream_->Completed({});
  Settle();
  EXPECT_EQ(reader_.count(), 1u);
  stream_->WriteDone(&reader_, true);
  const v1::Chunk chunk = reader_.Message(2).chunk();
  EXPECT_EQ(chunk.index(), 0);
  EXPECT_EQ(chunk.position(), 100);
  EXPECT_THAT(chunk.token_ids(), ElementsAre(10, 11));
  EXPECT_EQ(chunk.text(), "ab");
  Settle();
  EXPECT_EQ(reader_.count(), 2u);
  stream_->WriteDone(&reader_, true);
  EXPECT_TRUE(reader_.WaitForEnd().ok());
}

TEST_F(TurnStreamTest, ASlowReaderRestsTheTurnAndWakesIt) {
  stream_->Started({});
  reader_.Message(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(stream_->CanAccept());
    stream_->Chunk(Token(i, "x"));
  }
  EXPECT_FALSE(stream_->CanAccept());
  EXPECT_EQ(wakes_, 0);
  stream_->WriteDone(&reader_, true);
  EXPECT_EQ(reader_.Message(2).chunk().token_ids_size(), 3);
  Settle();
  EXPECT_TRUE(stream_->CanAccept());
  EXPECT_EQ(wakes_, 1);
  // Below the bound nothing rests, so nothing has to be woken.
  stream_->WriteDone(&reader_, true);
  stream_->Chunk(Token(3, "y"));
  reader_.Message(3);
  Settle();
  EXPECT_EQ(wakes_, 1);
}

TEST_F(TurnStreamTest, AReaderThatGoesStopsTheTurnAndGetsNoMore) {
  stream_->Started({});
  reader_.Message(1);
  stream_->Chunk(Token(0, "a"));
  stream_->ReaderGone(&reader_);
  EXPECT_EQ(handle_->cancels, 1);
  stream_->ReaderGone(&reader_);
  EXPECT_EQ(handle_->cancels, 1);
  for (int i = 1; i < 9; ++i) stream_->Chunk(Token(i, "b"));
  EXPECT_TRUE(stream_->CanAccept());
  stream_->WriteDone(&reader_, false);
  TurnResult result;
  result.reason = FinishReason::kCancelled;
  stream_->Completed(result);
  EXPECT_EQ(reader_.WaitForEnd().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(reader_.count(), 2u);
}

TEST_F(TurnStreamTest, AFailedWriteIsAReaderGone) {
  stream_->Started({});
  reader_.Message(1);
  stream_->WriteDone(&reader_, false);
  EXPECT_EQ(handle_->cancels, 1);
  stream_->Completed({});
  EXPECT_EQ(reader_.WaitForEnd().code(), absl::StatusCode::kCancelled);
}

// The turn holds the stream: were the stream to hold the turn, neither would ever go.
TEST_F(TurnStreamTest, DoesNotKeepTheTurnAlive) {
  auto turn = std::make_shared<Handle>();
  const std::weak_ptr<Handle> watch = turn;
  stream_->SetHandle(turn);
  turn.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_F(TurnStreamTest, AHandleThatComesAfterTheReaderWentIsCancelled) {
  stream_->ReaderGone(&reader_);
  const auto late = std::make_shared<Handle>();
  stream_->SetHandle(late);
  EXPECT_EQ(late->cancels, 1);
}

TEST_F(TurnStreamTest, FailureEndsTheStreamWithItsStatus) {
  stream_->Failed(absl::UnavailableError("gone"));
  EXPECT_EQ(reader_.WaitForEnd(), absl::UnavailableError("gone"));
  EXPECT_EQ(reader_.count(), 1u);
  EXPECT_THAT(ended_, ElementsAre(absl::UnavailableError("gone")));
}

// Readers that come later: the turn is kept.

TEST_F(TurnStreamTest, ALaterReaderBeginsWhereItWants) {
  Make({.keeper = std::make_shared<Purse>(kPlenty)});
  TurnReader first;
  ASSERT_TRUE(stream_->Attach(&first, 0).ok());
  stream_->Started({.session_id = "s"});
  for (int i = 0; i < 5; ++i) stream_->Chunk(Token(i, std::to_string(i)));
  stream_->Completed(Result(FinishReason::kLength, 5));
  EXPECT_EQ(first.ReadAll(*stream_).text, "01234");
  for (int from = 0; from <= 5; ++from) {
    TurnReader later;
    ASSERT_TRUE(stream_->Attach(&later, from).ok());
    const TurnReader::All all = later.ReadAll(*stream_);
    EXPECT_EQ(all.text, std::string("01234").substr(from));
    EXPECT_EQ(all.ids.size(), 5u - from);
    EXPECT_TRUE(all.status.ok());
    EXPECT_EQ(all.complete.finish_reason(), v1::LENGTH);
    EXPECT_EQ(later.Message(1).started().session_id(), "s");
    if (from < 5) {
      EXPECT_EQ(later.Message(2).chunk().index(), from);
      EXPECT_EQ(later.Message(2).chunk().position(), 100 + from);
      EXPECT_LE(later.Message(2).chunk().token_ids_size(), 3);
    }
  }
  TurnReader beyond;
  EXPECT_TRUE(absl::IsInvalidArgument(stream_->Attach(&beyond, 6)));
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));  // Told once.
}

TEST_F(TurnStreamTest, ALaterReaderTakesTheTurnOver) {
  Make({.keeper = std::make_shared<Purse>(kPlenty)});
  TurnReader first;
  ASSERT_TRUE(stream_->Attach(&first, 0).ok());
  stream_->Started({});
  first.Message(1);
  stream_->Chunk(Token(0, "a"));
  TurnReader second;
  ASSERT_TRUE(stream_->Attach(&second, 0).ok());
  second.Message(1);
  // What is being written to the first must be done before it ends.
  Settle();
  EXPECT_EQ(first.count(), 1u);
  stream_->WriteDone(&first, true);
  EXPECT_EQ(ReasonOf(first.WaitForEnd()), "REQUEST_TAKEN_UP");
  stream_->ReaderGone(&first);
  EXPECT_EQ(handle_->cancels, 0);
  stream_->Completed(Result(FinishReason::kStop, 1));
  EXPECT_EQ(second.ReadAll(*stream_).text, "a");
}

TEST_F(TurnStreamTest, TheReaderThatIsThereHoldsTheTurnBack) {
  Make({.keeper = std::make_shared<Purse>(kPlenty)});
  TurnReader slow;
  ASSERT_TRUE(stream_->Attach(&slow, 0).ok());
  stream_->Started({});
  slow.Message(1);
  for (int i = 0; i < 3; ++i) stream_->Chunk(Token(i, "x"));
  EXPECT_FALSE(stream_->CanAccept());
  wakes_ = 0;
  TurnReader quick;
  ASSERT_TRUE(stream_->Attach(&quick, 2).ok());
  EXPECT_TRUE(stream_->CanAccept());
  EXPECT_GE(wakes_, 1);
  Settle();
}

TEST_F(TurnStreamTest, AKeptTurnIsCancelledWithItsReaderUnlessItRunsWithoutOne) {
  for (const bool runs_alone : {false, true}) {
    handle_ = std::make_shared<Handle>();
    Make({.runs_without_reader = runs_alone, .keeper = std::make_shared<Purse>(kPlenty)});
    TurnReader first;
    ASSERT_TRUE(stream_->Attach(&first, 0).ok());
    stream_->Started({});
    first.Message(1);
    wakes_ = 0;
    stream_->ReaderGone(&first);
    EXPECT_EQ(handle_->cancels, runs_alone ? 0 : 1);
    EXPECT_EQ(wakes_ > 0, runs_alone);
    stream_->WriteDone(&first, false);
    EXPECT_TRUE(absl::IsCancelled(first.WaitForEnd()));  // Without the turn's end.
    for (int i = 0; i < 9; ++i) {
      EXPECT_TRUE(stream_->CanAccept());
      stream_->Chunk(Token(i, "y"));
    }
    TurnReader second;
    ASSERT_TRUE(stream_->Attach(&second, 0).ok());
    const auto reason = runs_alone ? FinishReason::kLength : FinishReason::kCancelled;
    stream_->Completed(Result(reason, 9));
    const TurnReader::All all = second.ReadAll(*stream_);
    EXPECT_EQ(all.text, "yyyyyyyyy");
    EXPECT_EQ(all.complete.finish_reason(), runs_alone ? v1::LENGTH : v1::CANCELLED);
  }
}

TEST_F(TurnStreamTest, WithoutRoomOnlyWhatIsUnreadIsKept) {
  const auto purse = std::make_shared<Purse>(1000);
  Make({.keeper = purse});
  TurnReader reader;
  ASSERT_TRUE(stream_->Attach(&reader, 0).ok());
  stream_->Started({});
  for (int i = 0; i < 1000; ++i) {
    stream_->Chunk(Token(i, std::string(100, 'z')));
    if (reader.count() > 0) stream_->WriteDone(&reader, true);
  }
  stream_->Completed(Result(FinishReason::kLength, 1000));
  EXPECT_EQ(reader.ReadAll(*stream_).ids.size(), 1000u);
  TurnReader later;
  EXPECT_EQ(ReasonOf(stream_->Attach(&later, 0)), "REQUEST_NOT_FOUND");
  ASSERT_TRUE(stream_->Attach(&later, 1000).ok());
  EXPECT_EQ(later.ReadAll(*stream_).complete.finish_reason(), v1::LENGTH);
}

TEST_F(TurnStreamTest, WhatHadNoEffectIsTold) {
  const std::vector<std::pair<TurnResult, bool>> cases = {
      {Result(FinishReason::kLength, 0), true},  // Nothing was to be generated.
      {Result(FinishReason::kStop, 1), true},       {Result(FinishReason::kCancelled, 1), true},
      {Result(FinishReason::kCancelled, 0), false}, {Result(FinishReason::kTimeLimit, 0), false},
      {Result(FinishReason::kDrained, 0), false}};
  for (const auto& [result, had_effect] : cases) {
    const auto purse = std::make_shared<Purse>(kPlenty);
    Make({.keeper = purse});
    stream_->Completed(result);
    EXPECT_THAT(purse->ends, ElementsAre(had_effect));
  }
  const auto purse = std::make_shared<Purse>(kPlenty);
  Make({.keeper = purse});
  stream_->Failed(absl::UnavailableError("gone"));
  EXPECT_THAT(purse->ends, ElementsAre(false));
}

TEST_F(TurnStreamTest, NothingIsLostOrTornBetweenFastThreads) {
  std::thread engine([&] {
    stream_->Started({});
    for (int i = 0; i < 5000;) {
      if (!stream_->CanAccept()) {
        std::this_thread::yield();
        continue;
      }
      stream_->Chunk(Token(i++, "z"));
    }
    stream_->Completed({});
  });
  std::string text;
  int tokens = 0;
  for (size_t i = 1;; ++i) {
    const v1::GenerateResponse message = reader_.Message(i);
    if (message.has_complete()) break;
    if (message.has_chunk()) {
      EXPECT_EQ(message.chunk().index(), tokens);
      EXPECT_LE(message.chunk().token_ids_size(), 3);
      tokens += message.chunk().token_ids_size();
      text += message.chunk().text();
    }
    stream_->WriteDone(&reader_, true);
  }
  engine.join();
  EXPECT_EQ(tokens, 5000);
  EXPECT_EQ(text, std::string(5000, 'z'));
}

// Readers break off and others take the turn up where they stopped, while it runs.
TEST_F(TurnStreamTest, NothingIsLostBetweenReadersThatFollowOneAnother) {
  Make({.runs_without_reader = true, .keeper = std::make_shared<Purse>(kPlenty)});
  constexpr int kTokens = 3000;
  std::thread engine([&] {
    stream_->Started({});
    for (int i = 0; i < kTokens;) {
      if (!stream_->CanAccept()) {
        std::this_thread::yield();
        continue;
      }
      stream_->Chunk(Token(i, std::string(1, static_cast<char>('a' + i % 26))));
      ++i;
    }
    stream_->Completed(Result(FinishReason::kLength, kTokens));
  });
  std::vector<int32_t> ids;
  std::vector<std::unique_ptr<TurnReader>> readers;  // They must outlive their last calls.
  for (bool complete = false; !complete;) {
    TurnReader& reader = *readers.emplace_back(std::make_unique<TurnReader>());
    ASSERT_TRUE(stream_->Attach(&reader, static_cast<int32_t>(ids.size())).ok());
    for (size_t i = 1; i <= 1 + readers.size() % 40; ++i) {
      const v1::GenerateResponse message = reader.Message(i);
      complete = message.has_complete();
      if (complete) break;
      if (message.has_chunk()) {
        EXPECT_EQ(message.chunk().index(), static_cast<int>(ids.size()));
      }
      ids.insert(ids.end(), message.chunk().token_ids().begin(), message.chunk().token_ids().end());
      if (readers.size() % 2 == 0) stream_->ReaderGone(&reader);
      stream_->WriteDone(&reader, true);
      if (readers.size() % 2 == 0) break;
    }
  }
  engine.join();
  ASSERT_EQ(ids.size(), static_cast<size_t>(kTokens));
  for (int i = 0; i < kTokens; ++i) ASSERT_EQ(ids[i], 10 + i);
  for (size_t i = 0; i + 1 < readers.size(); ++i) {
    stream_->WriteDone(readers[i].get(), true);  // Of a message that it left unread.
    EXPECT_FALSE(readers[i]->WaitForEnd().ok());
  }
}

}  // namespace
}  // namespace fermata
