#ifndef FERMATA_SERVER_CALLS_TURN_STREAM_H_
#define FERMATA_SERVER_CALLS_TURN_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/worker.h"
#include "engine/model/model.h"
#include "engine/scheduler/requests.h"
#include "fermata/v1/generation.pb.h"

namespace fermata {

// The events of one turn, between the engine, which only appends them, and the reader, for whom the
// writer's thread turns what has gathered into one message at a time. While a write is pending, new
// tokens are merged into one chunk; when buffer_tokens wait for the reader, the turn rests.
//
// What was read is dropped, unless there is a keeper: then a later reader can begin anywhere. It takes
// the turn over from the one before it. Thread-safe; held by the engine, the calls, the writer's tasks
// and who keeps it together.
class TurnStream : public TurnSink, public std::enable_shared_from_this<TurnStream> {
 public:
  // The way to a reader. Called on the writer's thread, outside of locks, one write outstanding.
  class Output {
   public:
    virtual ~Output() = default;
    virtual void Write(v1::GenerateResponse message) = 0;
    // Writes `complete`, and ends the call with OK. One of these is the last call, after which the
    // output may be gone.
    virtual void WriteLast(v1::GenerateResponse message) = 0;
    virtual void Fail(const absl::Status& status) = 0;
  };

  // Who answers for the memory of events that were read. Called under the stream's lock.
  class Keeper {
   public:
    virtual ~Keeper() = default;
    // So many bytes more are to be kept. False when there is no room: nothing is kept from then on.
    virtual bool Add(int64_t bytes) = 0;
    // The turn has ended. One that had no effect can be run again, and need not be kept.
    virtual void Ended(bool had_effect) = 0;
  };

  struct Options {
    int64_t buffer_tokens = 1;
    const ModelInfo* model = nullptr;
    std::string request_id;
    bool with_logprobs = false;
    bool runs_without_reader = false;  // Else the turn is cancelled when its reader goes.
    std::shared_ptr<Keeper> keeper;    // May be null.
    Worker* writer = nullptr;
    std::function<void()> wake;  // Engine::Wake.
    // Told how the turn ended, on the writer's thread, before any reader hears of it.
    std::function<void(const absl::StatusOr<TurnResult>&)> ended;
  };
  explicit TurnStream(Options options);

  void Started(TurnStarted started) override;
  void Chunk(TurnChunk chunk) override;
  void Completed(TurnResult result) override;
  void Failed(absl::Status status) override;
  bool CanAccept() const override;

  // What the engine gave for the turn; cancels it at once if the reader has gone meanwhile.
  void SetHandle(const std::shared_ptr<RequestHandle>& handle);

  // Makes `output` the reader: `started`, the chunks from token `from_index` on, and the end.
  // INVALID_ARGUMENT for an index beyond the tokens that there are, and NOT_FOUND with reason
  // REQUEST_NOT_FOUND for one whose token is not kept; the output is not called then. Else it must live
  // until its last call. The reader before it ends with ABORTED, reason REQUEST_TAKEN_UP.
  absl::Status Attach(Output* output, int32_t from_index);
  // The write that was outstanding is done; not `ok` when the reader is gone.
  void WriteDone(Output* output, bool ok);
  // Cancelled, disconnected or past its deadline. Its last call follows.
  void ReaderGone(Output* output);

 private:
  struct Reader {
    Output* output = nullptr;
    int64_t next = 0;  // Chunk to be written, by its number.
    int64_t sent = 0;  // Tokens that it has.
    bool started = false;
    bool writing = false;
    bool gone = false;
    bool taken_over = false;
  };

  // All of these with the mutex held, but for Pump.
  void End(absl::StatusOr<TurnResult> result, bool had_effect);
  // The reader that the turn is read by now; null when there is none.
  Reader* current();
  const Reader* current() const;
  Reader* Find(const Output* output);
  // Whether as many tokens wait as may.
  bool Full() const;
  void DropWhatIsRead();
  // Has Pump run on the writer's thread, if there is something to do.
  void Schedule();
  bool Ready(const Reader& reader) const;
  int64_t end() const { return first_ + static_cast<int64_t>(chunks_.size()); }

  // Does what there is to do, on the writer's thread.
  void Pump();
  // Gives back the lock while it calls the reader's output.
  void Serve(Reader& reader, std::unique_lock<std::mutex>& lock);
  void WriteChunk(Reader& reader, std::unique_lock<std::mutex>& lock);
  void WriteEnd(Output* output) const;

  const Options options_;

  mutable std::mutex mutex_;
  // Weak, as the turn holds this stream: together they would keep each other for ever.
  std::weak_ptr<RequestHandle> handle_;
  bool cancelled_ = false;
  bool keeping_;
  std::optional<TurnStarted> started_;
  std::deque<TurnChunk> chunks_;                      // As they came.
  int64_t first_ = 0;                                 // Number of the first of these.
  int64_t tokens_ = 0;                                // That have come.
  std::optional<absl::StatusOr<TurnResult>> result_;  // Once set, it stays as it is.
  bool told_ = false;                                 // options_.ended was called.
  bool scheduled_ = false;
  std::vector<std::unique_ptr<Reader>> readers_;  // Before the last: those that are being ended.
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_TURN_STREAM_H_
