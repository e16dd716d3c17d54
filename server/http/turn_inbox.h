#ifndef FERMATA_SERVER_HTTP_TURN_INBOX_H_
#define FERMATA_SERVER_HTTP_TURN_INBOX_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fermata/v1/generation.pb.h"
#include "server/calls/front.h"
#include "server/http/notifier.h"

namespace fermata {

// What a turn sent: an event of its stream, or how it failed. `complete` and failures are its last.
struct TurnEvent {
  size_t turn = 0;  // Turns are numbered in the order of their starts.
  std::variant<v1::GenerateResponse, absl::Status> what;
};

// Reads the turns of one HTTP request in a coroutine. A turn may have one event here at a time: it
// rests when its events are not taken. When the inbox goes, or Cancel is called, the turns that have
// not ended lose their reader: they stop, or run on where their request says so.
class TurnInbox {
 public:
  // `trace` is the request's.
  TurnInbox(const Front& front, const boost::asio::any_io_executor& executor, TraceContext trace);
  ~TurnInbox();

  // Begins a turn, or takes up the one that is known by its request's id. An error is the caller's:
  // no event follows.
  absl::Status Start(const v1::GenerateRequest& request);

  // The next event of any turn; nullopt when none has come for `patience`, or when all turns have
  // ended. Returning for the next one says that the one before is done with.
  Awaitable<std::optional<TurnEvent>> Next(absl::Duration patience);
  // Whether all turns that were started have ended, and their events were taken.
  bool done() const;

  // The client is gone. Failures with reason CANCELLED follow.
  void Cancel();

 private:
  class Reader;

  const Front& front_;
  const TraceContext trace_;
  Notifier notifier_;
  std::vector<std::shared_ptr<Reader>> readers_;  // By turn.
  size_t next_ = 0;                               // Where to look first, so that none waits longer.
  Reader* taken_ = nullptr;                       // Whose event the caller has.
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_TURN_INBOX_H_
