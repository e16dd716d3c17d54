#include "server/turn_stream.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::ElementsAre;

// A reader: keeps what it is given, and is slow on demand.
class Reader : public TurnStream::Output {
 public:
  void Write(const v1::GenerateResponse& message) override { Keep(message, false, {}); }
  void WriteLast(const v1::GenerateResponse& message) override { Keep(message, true, {}); }
  void Fail(const absl::Status& status) override { Keep({}, true, status); }

  // Waits for the `count`-th message, the end included.
  v1::GenerateResponse Message(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return messages_.size() >= count; });
    return messages_[count - 1];
  }
  absl::Status WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return status_;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }

 private:
  void Keep(const v1::GenerateResponse& message, bool end, const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_);
    messages_.push_back(message);
    ended_ = end;
    status_ = status;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::GenerateResponse> messages_;
  bool ended_ = false;
  absl::Status status_;
};

class Handle : public RequestHandle {
 public:
  void Cancel() override { ++cancels; }
  std::atomic<int> cancels = 0;
};

class TurnStreamTest : public testing::Test {
 protected:
  TurnStreamTest() {
    model_.name = "tale";
    TurnStream::Options options;
    options.buffer_tokens = 3;
    options.model = &model_;
    options.request_id = "r";
    options.writer = &writer_;
    options.wake = [this] { ++wakes_; };
    options.ended = [this](const absl::StatusOr<TurnResult>& result) {
      ended_.push_back(result.status());
    };
    stream_ = std::make_shared<TurnStream>(options, &reader_);
    stream_->SetHandle(handle_);
  }

  static TurnChunk Token(int index, const std::string& text) {
    return {.index = index,
            .position = 100 + index,
            .tokens = {{.token = 10 + index, .logprob = 0, .top = {}}},
            .text = text};
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
  Reader reader_;
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
  stream_->WriteDone(true);
  stream_->Chunk(Token(0, "a"));
  EXPECT_EQ(reader_.Message(2).chunk().text(), "a");
  stream_->WriteDone(true);
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
  stream_->WriteDone(true);
  const v1::Chunk chunk = reader_.Message(2).chunk();
  EXPECT_EQ(chunk.index(), 0);
  EXPECT_EQ(chunk.position(), 100);
  EXPECT_THAT(chunk.token_ids(), ElementsAre(10, 11));
  EXPECT_EQ(chunk.text(), "ab");
  Settle();
  EXPECT_EQ(reader_.count(), 2u);
  stream_->WriteDone(true);
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
  stream_->WriteDone(true);
  EXPECT_EQ(reader_.Message(2).chunk().token_ids_size(), 3);
  Settle();
  EXPECT_TRUE(stream_->CanAccept());
  EXPECT_EQ(wakes_, 1);
  // Below the bound nothing rests, so nothing has to be woken.
  stream_->WriteDone(true);
  stream_->Chunk(Token(3, "y"));
  reader_.Message(3);
  Settle();
  EXPECT_EQ(wakes_, 1);
}

TEST_F(TurnStreamTest, AReaderThatGoesStopsTheTurnAndGetsNoMore) {
  stream_->Started({});
  reader_.Message(1);
  stream_->Chunk(Token(0, "a"));
  stream_->ReaderGone();
  EXPECT_EQ(handle_->cancels, 1);
  stream_->ReaderGone();
  EXPECT_EQ(handle_->cancels, 1);
  for (int i = 1; i < 9; ++i) stream_->Chunk(Token(i, "b"));
  EXPECT_TRUE(stream_->CanAccept());
  stream_->WriteDone(false);
  TurnResult result;
  result.reason = FinishReason::kCancelled;
  stream_->Completed(result);
  EXPECT_EQ(reader_.WaitForEnd().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(reader_.count(), 2u);
}

TEST_F(TurnStreamTest, AFailedWriteIsAReaderGone) {
  stream_->Started({});
  reader_.Message(1);
  stream_->WriteDone(false);
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
  stream_->ReaderGone();
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

TEST_F(TurnStreamTest, NothingIsLostOrTornBetweenFastThreads) {
  std::thread engine([&] {
    stream_->Started({});
    for (int i = 0; i < 5000;) {
      if (!stream_->CanAccept()) continue;
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
    stream_->WriteDone(true);
  }
  engine.join();
  EXPECT_EQ(tokens, 5000);
  EXPECT_EQ(text, std::string(5000, 'z'));
}

}  // namespace
}  // namespace fermata
