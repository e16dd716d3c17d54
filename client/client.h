#ifndef FERMATA_CLIENT_CLIENT_H_
#define FERMATA_CLIENT_CLIENT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/models.pb.h"
#include "fermata/v1/session.pb.h"

// The client library of Fermata. Requests and replies are the messages of proto/fermata/v1, where
// each field is documented. An error is the call's status; client/error.h takes its details apart.
namespace fermata::client {

inline constexpr char kDefaultAddress[] = "127.0.0.1:7411";

struct ClientOptions {
  std::string address = kDefaultAddress;  // Host and port, as gRPC writes them.
  // Of each call, a stream as a whole; then it fails with DEADLINE_EXCEEDED.
  absl::Duration deadline = absl::InfiniteDuration();
  // Calls wait, up to the deadline, for a server that can not be reached yet, instead of failing
  // with UNAVAILABLE.
  bool wait_for_ready = false;
  int max_reply_bytes = 64 << 20;  // A larger message fails its call with RESOURCE_EXHAUSTED.
};

// A turn on its way. One thread at a time reads; Cancel may be called by any.
class GenerateStream {
 public:
  // Cancels the call if it is still running.
  ~GenerateStream();
  GenerateStream(const GenerateStream&) = delete;
  GenerateStream& operator=(const GenerateStream&) = delete;

  // Waits for the next event. False when there are no more: Finish says why.
  bool Next(v1::GenerateResponse* event);
  // The call's status, waiting for its end; events not read yet are dropped. OK means that
  // `complete` was sent and the session is committed.
  absl::Status Finish();
  // Ends the call. The server stops within one step and commits what it has generated; what is on
  // its way may still be read, then the status is CANCELLED. No effect on a call that has ended.
  void Cancel();

 private:
  friend class Client;
  struct Impl;
  explicit GenerateStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What takes the events of a turn that no thread waits for. The library's own few threads call it,
// one at a time for one turn: it must not block.
class GenerateHandler {
 public:
  virtual ~GenerateHandler() = default;
  // Each event, `complete` too.
  virtual void OnEvent(const v1::GenerateResponse& event) = 0;
  // Once, after all events. As of GenerateStream::Finish.
  virtual void OnDone(const absl::Status& status) = 0;
};

// A turn on its way to its handler. Thread-safe, and may be dropped at any time.
class GenerateCall {
 public:
  virtual ~GenerateCall() = default;
  // As of GenerateStream. No effect on a call that has ended.
  virtual void Cancel() = 0;
};

// One connection to one server. Thread-safe.
class Client {
 public:
  // Does not connect: the first call does.
  explicit Client(const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Starts a turn, whose events the caller reads. Must not outlive the client.
  std::unique_ptr<GenerateStream> StartGenerate(const v1::GenerateRequest& request);
  // Takes up a turn whose stream was lost, from a token on. Must not outlive the client.
  std::unique_ptr<GenerateStream> StartAttach(const v1::AttachRequest& request);
  // Starts a turn that reports to `handler`, which must live until its OnDone is called, as must the
  // client. OnDone may come before this returns.
  std::shared_ptr<GenerateCall> StartGenerate(const v1::GenerateRequest& request,
                                              GenerateHandler* handler);
  // Runs a turn to its end, calling `on_event` (may be null) for each event, `complete` too. The
  // call is cancelled when it returns false.
  using EventCallback = std::function<bool(const v1::GenerateResponse&)>;
  absl::StatusOr<v1::Complete> Generate(const v1::GenerateRequest& request,
                                        const EventCallback& on_event = nullptr);

  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request);
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request);

  absl::StatusOr<v1::Session> CreateSession(const v1::CreateSessionRequest& request);
  absl::StatusOr<v1::Session> GetSession(const std::string& id);
  absl::StatusOr<v1::Session> UpdateSession(const v1::UpdateSessionRequest& request);
  absl::Status DeleteSession(const std::string& id);
  absl::Status DeleteSession(const v1::DeleteSessionRequest& request);
  absl::StatusOr<v1::Session> ForkSession(const v1::ForkSessionRequest& request);
  absl::StatusOr<v1::Session> RewindSession(const v1::RewindSessionRequest& request);
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& id);

  // Gives the snapshot of a session to `take`, piece by piece in order, with the length of the whole.
  // The export is given up with the first error that `take` returns. DATA_LOSS when what came is not
  // what the server sent: what `take` was given is worth nothing then.
  using TakePiece = std::function<absl::Status(std::string_view piece, int64_t total)>;
  absl::Status ExportSession(const v1::ExportSessionRequest& request, const TakePiece& take);
  // Makes a session of an exported snapshot. `on_sent` (may be null) is told how many bytes are on
  // their way.
  absl::StatusOr<v1::Session> ImportSession(
      const v1::ImportOptions& options, std::string_view snapshot,
      const std::function<void(int64_t sent)>& on_sent = nullptr);
  // One page.
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request);
  // All pages: every session that has all of `labels`, in the order of ids.
  absl::StatusOr<std::vector<v1::Session>> ListAllSessions(
      const std::map<std::string, std::string>& labels = {});

  absl::StatusOr<v1::Model> GetModel();

  // OK when the server says that it serves `service` ("" is the server as a whole); UNAVAILABLE
  // when it says that it does not, or can not be reached; NOT_FOUND when it does not know the
  // service.
  absl::Status CheckHealth(const std::string& service = "");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata::client

#endif  // FERMATA_CLIENT_CLIENT_H_
