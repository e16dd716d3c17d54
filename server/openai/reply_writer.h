#ifndef FERMATA_SERVER_OPENAI_REPLY_WRITER_H_
#define FERMATA_SERVER_OPENAI_REPLY_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/worker.h"
#include "fermata/v1/generation.pb.h"
#include "server/http/exchange.h"
#include "server/openai/reply.h"

namespace fermata {

// Takes an answer piece by piece, and sends it: each piece as it comes, or all together at the end.
// Nothing has been sent, and a failure is an answer of its own, until Begin, the first piece of a
// stream, or Ping. What returns false says that the client is gone.
class ReplyWriter {
 public:
  struct Options {
    std::shared_ptr<const ReplyShape> shape;
    Worker* helper = nullptr;  // Makes what is large.
    bool stream = false;
    bool include_usage = false;
    int choices = 1;
    std::string session;  // Its id; empty: none.
  };
  // `exchange` must outlive it.
  ReplyWriter(HttpExchange& exchange, Options options);

  // Tells the client that it is being served.
  Awaitable<bool> Begin();
  // A sign of life, while nothing else is there to be sent.
  Awaitable<bool> Ping();
  // A choice's turn has begun.
  Awaitable<bool> Announce(int index);
  // `piece.text_offset` and `piece.first` are the writer's to say.
  Awaitable<bool> Add(ReplyPiece piece);
  Awaitable<void> Finish(const ReplyUsage& usage, std::optional<v1::SessionAfter> session);
  Awaitable<void> Fail(const absl::Status& status);

 private:
  HttpHeaders Headers() const;
  // What `make` makes: on the helper's threads where `tokens` are many. It must own what it uses.
  Awaitable<absl::StatusOr<std::string>> Make(size_t tokens, std::function<std::string()> make);
  Awaitable<void> FinishWhole(const ReplyUsage& usage, std::optional<v1::SessionAfter> session);
  Awaitable<void> FinishStream(const ReplyUsage& usage, std::optional<v1::SessionAfter> session);

  HttpExchange& exchange_;
  const Options options_;
  bool begun_ = false;
  std::vector<ReplyPiece> choices_;             // Whole, or, of a stream, without what was sent.
  std::optional<nlohmann::ordered_json> held_;  // The chunk that may be the last.
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_REPLY_WRITER_H_
