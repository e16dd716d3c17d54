#include "client/client.h"

#include <chrono>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "client/error.h"
#include "fermata/v1/generation.grpc.pb.h"
#include "fermata/v1/models.grpc.pb.h"
#include "fermata/v1/session.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace fermata::client {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_reply_bytes);
  // A connection of its own: a slow reader holds up no other client's streams.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Connections to a server are not a proxy's business unless the address says so.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

void Prepare(const ClientOptions& options, grpc::ClientContext* context) {
  context->set_wait_for_ready(options.wait_for_ready);
  if (options.deadline != absl::InfiniteDuration()) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + options.deadline));
  }
}

}  // namespace

struct GenerateStream::Impl {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  bool finished = false;
  absl::Status status;
};

GenerateStream::GenerateStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GenerateStream::~GenerateStream() {
  if (impl_->finished) return;
  Cancel();
  (void)Finish();
}

bool GenerateStream::Next(v1::GenerateResponse* event) {
  return !impl_->finished && impl_->reader->Read(event);
}

absl::Status GenerateStream::Finish() {
  if (!impl_->finished) {
    v1::GenerateResponse dropped;
    while (impl_->reader->Read(&dropped)) {
    }
    impl_->status = FromGrpc(impl_->reader->Finish());
    impl_->finished = true;
  }
  return impl_->status;
}

void GenerateStream::Cancel() { impl_->context.TryCancel(); }

namespace {

// Holds itself until the call has ended.
class AsyncCall : public GenerateCall, public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  explicit AsyncCall(GenerateHandler* handler) : handler_(handler) {}

  grpc::ClientContext* context() { return &context_; }
  void Start(std::shared_ptr<AsyncCall> self) {
    self_ = std::move(self);
    StartRead(&event_);
    StartCall();
  }

  void Cancel() override { context_.TryCancel(); }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    handler_->OnEvent(event_);
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<AsyncCall> self = std::move(self_);
    handler_->OnDone(FromGrpc(status));
  }

 private:
  GenerateHandler* handler_;
  grpc::ClientContext context_;
  v1::GenerateResponse event_;
  std::shared_ptr<AsyncCall> self_;
};

}  // namespace

struct Client::Impl {
  explicit Impl(const ClientOptions& options)
      : options(options),
        channel(MakeChannel(options)),
        generation(channel),
        sessions(channel),
        models(channel),
        health(channel) {}

  // One unary call: `method` of `stub`.
  template <typename Stub, typename Request, typename Reply>
  absl::StatusOr<Reply> Call(Stub& stub,
                             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Reply*),
                             const Request& request) {
    grpc::ClientContext context;
    Prepare(options, &context);
    Reply reply;
    const grpc::Status status = (stub.*method)(&context, request, &reply);
    if (!status.ok()) return FromGrpc(status);
    return reply;
  }

  const ClientOptions options;
  const std::shared_ptr<grpc::Channel> channel;
  v1::Generation::Stub generation;
  v1::Sessions::Stub sessions;
  v1::Models::Stub models;
  grpc::health::v1::Health::Stub health;
};

Client::Client(const ClientOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Client::~Client() = default;

std::unique_ptr<GenerateStream> Client::StartGenerate(const v1::GenerateRequest& request) {
  auto stream = std::make_unique<GenerateStream::Impl>();
  Prepare(impl_->options, &stream->context);
  stream->reader = impl_->generation.Generate(&stream->context, request);
  return std::unique_ptr<GenerateStream>(new GenerateStream(std::move(stream)));
}

std::unique_ptr<GenerateStream> Client::StartAttach(const v1::AttachRequest& request) {
  auto stream = std::make_unique<GenerateStream::Impl>();
  Prepare(impl_->options, &stream->context);
  stream->reader = impl_->generation.Attach(&stream->context, request);
  return std::unique_ptr<GenerateStream>(new GenerateStream(std::move(stream)));
}

std::shared_ptr<GenerateCall> Client::StartGenerate(const v1::GenerateRequest& request,
                                                    GenerateHandler* handler) {
  auto call = std::make_shared<AsyncCall>(handler);
  Prepare(impl_->options, call->context());
  impl_->generation.async()->Generate(call->context(), &request, call.get());
  call->Start(call);
  return call;
}

absl::StatusOr<v1::Complete> Client::Generate(const v1::GenerateRequest& request,
                                              const EventCallback& on_event) {
  const std::unique_ptr<GenerateStream> stream = StartGenerate(request);
  v1::Complete complete;
  bool completed = false;
  v1::GenerateResponse event;
  while (stream->Next(&event)) {
    if (event.has_complete()) {
      complete = event.complete();
      completed = true;
    }
    if (on_event && !on_event(event)) {
      stream->Cancel();
      break;
    }
  }
  if (absl::Status status = stream->Finish(); !status.ok()) return status;
  if (!completed) return absl::InternalError("the stream ended without `complete`");
  return complete;
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request) {
  return impl_->Call(impl_->generation, &v1::Generation::Stub::Tokenize, request);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request) {
  return impl_->Call(impl_->generation, &v1::Generation::Stub::Detokenize, request);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request) {
  return impl_->Call(impl_->generation, &v1::Generation::Stub::Score, request);
}

absl::StatusOr<v1::Session> Client::CreateSession(const v1::CreateSessionRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Create, request);
}

absl::StatusOr<v1::Session> Client::GetSession(const std::string& id) {
  v1::GetSessionRequest request;
  request.set_id(id);
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Get, request);
}

absl::StatusOr<v1::Session> Client::UpdateSession(const v1::UpdateSessionRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Update, request);
}

absl::Status Client::DeleteSession(const std::string& id) {
  v1::DeleteSessionRequest request;
  request.set_id(id);
  return DeleteSession(request);
}

absl::Status Client::DeleteSession(const v1::DeleteSessionRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Delete, request).status();
}

absl::StatusOr<v1::Session> Client::ForkSession(const v1::ForkSessionRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Fork, request);
}

absl::StatusOr<v1::Session> Client::RewindSession(const v1::RewindSessionRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::Rewind, request);
}

absl::StatusOr<v1::ListCheckpointsResponse> Client::ListCheckpoints(const std::string& id) {
  v1::ListCheckpointsRequest request;
  request.set_id(id);
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::ListCheckpoints, request);
}

absl::Status Client::ExportSession(const v1::ExportSessionRequest& request, const TakePiece& take) {
  grpc::ClientContext context;
  Prepare(impl_->options, &context);
  const auto reader = impl_->sessions.Export(&context, request);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  v1::SnapshotPart part;
  int64_t total = 0;
  int64_t received = 0;
  uint64_t checksum = 0;
  absl::Status taken;
  while (taken.ok() && reader->Read(&part)) {
    if (total == 0) total = part.total_bytes();
    received += static_cast<int64_t>(part.data().size());
    checksum = part.checksum();
    XXH3_64bits_update(hash.get(), part.data().data(), part.data().size());
    taken = take(part.data(), total);
  }
  if (!taken.ok()) context.TryCancel();
  const absl::Status status = FromGrpc(reader->Finish());
  if (!taken.ok()) return taken;
  if (!status.ok()) return status;
  if (received != total || checksum != XXH3_64bits_digest(hash.get())) {
    return absl::DataLossError("the snapshot was altered on its way");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Session> Client::ImportSession(const v1::ImportOptions& options,
                                                  std::string_view snapshot,
                                                  const std::function<void(int64_t)>& on_sent) {
  constexpr size_t kPartBytes = 1 << 20;
  grpc::ClientContext context;
  Prepare(impl_->options, &context);
  v1::Session session;
  const auto writer = impl_->sessions.Import(&context, &session);
  v1::ImportSessionRequest request;
  *request.mutable_options() = options;
  bool open = writer->Write(request);
  for (size_t sent = 0; open && sent < snapshot.size();) {
    v1::SnapshotPart& part = *request.mutable_part();
    part.Clear();
    if (sent == 0) part.set_total_bytes(static_cast<int64_t>(snapshot.size()));
    part.set_data(std::string(snapshot.substr(sent, kPartBytes)));
    sent += part.data().size();
    if (sent == snapshot.size()) {
      part.set_checksum(XXH3_64bits(snapshot.data(), snapshot.size()));
    }
    open = writer->Write(request);
    if (open && on_sent) on_sent(static_cast<int64_t>(sent));
  }
  // When the server ends the call early, its status says why.
  writer->WritesDone();
  if (absl::Status status = FromGrpc(writer->Finish()); !status.ok()) return status;
  return session;
}

absl::StatusOr<v1::ListSessionsResponse> Client::ListSessions(
    const v1::ListSessionsRequest& request) {
  return impl_->Call(impl_->sessions, &v1::Sessions::Stub::List, request);
}

absl::StatusOr<std::vector<v1::Session>> Client::ListAllSessions(
    const std::map<std::string, std::string>& labels) {
  v1::ListSessionsRequest request;
  request.set_page_size(1000);
  request.mutable_labels()->insert(labels.begin(), labels.end());
  std::vector<v1::Session> sessions;
  do {
    absl::StatusOr<v1::ListSessionsResponse> page = ListSessions(request);
    if (!page.ok()) return page.status();
    for (v1::Session& session : *page->mutable_sessions()) sessions.push_back(std::move(session));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return sessions;
}

absl::StatusOr<v1::Model> Client::GetModel() {
  return impl_->Call(impl_->models, &v1::Models::Stub::Get, v1::GetModelRequest());
}

absl::Status Client::CheckHealth(const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto reply = impl_->Call(impl_->health, &grpc::health::v1::Health::Stub::Check, request);
  if (!reply.ok()) return reply.status();
  using Reply = grpc::health::v1::HealthCheckResponse;
  if (reply->status() == Reply::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server says ", Reply::ServingStatus_Name(reply->status())));
}

}  // namespace fermata::client
