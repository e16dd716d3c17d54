#ifndef FERMATA_SERVER_TURN_STREAM_H_
#define FERMATA_SERVER_TURN_STREAM_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/scheduler/engine.h"
#include "engine/scheduler/requests.h"
#include "fermata/v1/generation.pb.h"
#include "server/worker.h"

namespace fermata {

// What lies between the engine and one reader: the engine's thread only appends here, and the
// writer's thread turns what has gathered into one message at a time. While a write is pending, new
// tokens are merged into one chunk; when that holds buffer_tokens, the turn rests until it is
// taken. Thread-safe; held by the engine, the call and the writer's tasks together.
class TurnStream : public TurnSink, public std::enable_shared_from_this<TurnStream> {
 public:
  // The way to the reader. Called on the writer's thread, outside of locks, one write outstanding.
  class Output {
   public:
    virtual ~Output() = default;
    // `message` stays as it is until WriteDone.
    virtual void Write(const v1::GenerateResponse& message) = 0;
    // Writes, and ends the stream with OK. One of these is the last call, after which the output
    // may be gone.
    virtual void WriteLast(const v1::GenerateResponse& message) = 0;
    virtual void Fail(const absl::Status& status) = 0;
  };

  struct Options {
    int64_t buffer_tokens = 1;
    const ModelInfo* model = nullptr;
    std::string request_id;
    bool with_logprobs = false;
    Worker* writer = nullptr;
    std::function<void()> wake;  // Engine::Wake.
    // Told how the turn ended, just before the last call of the output.
    std::function<void(const absl::StatusOr<TurnResult>&)> ended;
  };

  // `output` must live until its last call.
  TurnStream(Options options, Output* output);

  void Started(TurnStarted started) override;
  void Chunk(TurnChunk chunk) override;
  void Completed(TurnResult result) override;
  void Failed(absl::Status status) override;
  bool CanAccept() const override;

  // What the engine gave for the turn; cancels it at once if the reader has gone meanwhile.
  void SetHandle(const std::shared_ptr<RequestHandle>& handle);
  // The write that was outstanding is done; not `ok` when the reader is gone.
  void WriteDone(bool ok);
  // Cancelled, disconnected or past its deadline: stops the turn, and drops what is unsent.
  void ReaderGone();

 private:
  // With the mutex held: has Pump run on the writer's thread.
  void Schedule();
  // Hands the next message to the output, if it can take one.
  void Pump();
  // Writes what was taken out under `lock`, after giving it back.
  template <typename Event>
  void Write(std::unique_lock<std::mutex> lock, Event event);
  // With the mutex held.
  bool Full() const;
  void End(absl::StatusOr<TurnResult> result);
  void Finish(const absl::StatusOr<TurnResult>& result, bool reader_gone);

  const Options options_;
  Output* const output_;
  v1::GenerateResponse message_;  // Being written; the writer's thread alone touches it.

  mutable std::mutex mutex_;
  // Weak, as the turn holds this stream: together they would keep each other for ever.
  std::weak_ptr<RequestHandle> handle_;
  std::optional<TurnStarted> started_;
  std::optional<TurnChunk> chunk_;  // All that has come since the last write.
  std::optional<absl::StatusOr<TurnResult>> result_;
  bool scheduled_ = false;
  bool writing_ = false;
  bool reader_gone_ = false;
  bool finished_ = false;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_TURN_STREAM_H_
