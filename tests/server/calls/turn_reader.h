#ifndef FERMATA_TESTS_SERVER_TURN_READER_H_
#define FERMATA_TESTS_SERVER_TURN_READER_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"
#include "server/calls/turn_stream.h"

namespace fermata {

// Keeps what it is given. Its writes are done when the test says so.
class TurnReader : public TurnStream::Output {
 public:
  void Write(v1::GenerateResponse message) override { Keep(std::move(message), false, {}); }
  void WriteLast(v1::GenerateResponse message) override { Keep(std::move(message), true, {}); }
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

  // Reads `stream` to its end, one message after another.
  struct All {
    std::vector<int32_t> ids;
    std::string text;
    absl::Status status;
    v1::Complete complete;
  };
  All ReadAll(TurnStream& stream) {
    All all;
    for (size_t i = 1;; ++i) {
      const v1::GenerateResponse message = Message(i);
      all.ids.insert(all.ids.end(), message.chunk().token_ids().begin(),
                     message.chunk().token_ids().end());
      all.text += message.chunk().text();
      if (message.has_started() || message.has_chunk()) {
        stream.WriteDone(this, true);
        continue;
      }
      all.complete = message.complete();
      all.status = WaitForEnd();
      return all;
    }
  }

 private:
  void Keep(v1::GenerateResponse message, bool end, const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_);
    messages_.push_back(std::move(message));
    ended_ = end;
    status_ = DeepCopy(status);
    changed_.notify_all();
  }

  // Copies of a status share what they hold, and the thread sanitizer can not see into Abseil, which
  // counts who does.
  static absl::Status DeepCopy(const absl::Status& status) {
    absl::Status copy(status.code(), status.message());
    status.ForEachPayload([&copy](absl::string_view url, const absl::Cord& payload) {
      copy.SetPayload(url, absl::Cord(std::string(payload)));
    });
    return copy;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::GenerateResponse> messages_;
  bool ended_ = false;
  absl::Status status_;
};

// Token `index` of a turn on a session at position 99.
inline TurnChunk Token(int index, const std::string& text) {
  return {.index = index,
          .position = 100 + index,
          .tokens = {{.token = 10 + index, .logprob = 0, .top = {}}},
          .text = text};
}

}  // namespace fermata

#endif  // FERMATA_TESTS_SERVER_TURN_READER_H_
