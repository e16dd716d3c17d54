#include <functional>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "server/calls/turn_call.h"
#include "server/http/answer.h"
#include "server/http/http_error.h"
#include "server/openai/call.h"
#include "server/openai/chat_reply.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_reply.h"
#include "server/openai/completion_request.h"
#include "server/openai/identified_exchange.h"
#include "server/openai/service.h"

namespace fermata {
namespace {

// Tokens of a session's end that are looked at to see whether its last turn is closed.
constexpr size_t kTailTokens = 64;

using Work = std::function<absl::Status()>;
using SharedChat = std::shared_ptr<ChatRequest>;

// Where the request stands, as its handlers go on with it.
struct Answering {
  SharedService service;
  IdentifiedExchange exchange;
  CallRecord record;
  OpenAiCall call;

  Answering(SharedService shared, HttpExchange& outer, std::string_view method)
      : service(std::move(shared)),
        exchange(outer),
        record(service->front().metrics, method, exchange.id(), OriginOf(outer.request())),
        call(service->front(), exchange, record.trace(), service->options().ping_interval) {
    exchange.OnGone([this] { call.Cancel(); });
  }
};

Awaitable<void> Refuse(Answering& answering, absl::Status status) {
  CountTurn(status, answering.record);
  HttpResponse response = ErrorResponse(status);
  co_await answering.exchange.Reply(std::move(response));
}

ReplyShape::Options ShapeOptions(const Runtime& runtime, const OpenAiRequest& request,
                                 const char* prefix) {
  const ModelInfo& model = runtime.model();
  return {.head = {.id = RandomId(prefix),
                   .created = absl::ToUnixSeconds(absl::Now()),
                   .model = model.name,
                   .fingerprint = "fp_" + model.fingerprint},
          .tokenizer = &runtime.tokenizer(),
          .with_logprobs = request.logprobs.has_value()};
}

Awaitable<void> Answer(Answering& answering, const OpenAiRequest& request,
                       std::shared_ptr<const ReplyShape> shape) {
  ReplyWriter::Options options = {.shape = std::move(shape),
                                  .helper = answering.service->front().helper,
                                  .stream = request.stream,
                                  .include_usage = request.include_usage,
                                  .choices = static_cast<int>(request.prompts.size()) * request.n,
                                  .session = request.session()};
  ReplyWriter writer(answering.exchange, std::move(options));
  OpenAiCall& call = answering.call;
  const absl::Status ran = co_await call.Run(request, writer);
  if (!ran.ok()) {
    const absl::Status named = RenameField(ran, request.names);
    CountTurn(named, answering.record);
    co_await writer.Fail(named);
    co_return;
  }
  if (call.complete() != nullptr) {
    CountTurn(*call.complete(), answering.record);
  } else {
    answering.record.Succeed();
  }
  co_await writer.Finish(call.usage(), call.session());
}

// The prompt that the messages come to, in a sequence that ends with `tail`.
absl::Status RenderInto(const Runtime& runtime, const ChatTemplate& chat_template,
                        std::vector<int32_t> tail, ChatRequest& chat) {
  OpenAiPrompt prompt;
  FERMATA_ASSIGN_OR_RETURN(prompt.prompt.token_ids,
                           RenderChat(chat_template, runtime.tokenizer(), chat.messages,
                                      std::move(tail), EndToken(runtime.model())));
  chat.request.prompts.clear();
  chat.request.prompts.push_back(std::move(prompt));
  return absl::OkStatus();
}

absl::Status ReadChat(OpenAiService& service, const Runtime& runtime, const HttpRequest& http,
                      ChatRequest& chat) {
  FERMATA_ASSIGN_OR_RETURN(
      chat, ReadChatRequest(http, runtime.model().name, service.options().chat_max_tokens));
  FERMATA_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, service.chat_template(runtime));
  OpenAiRequest& request = chat.request;
  request.lead = chat_template->lead;
  AddStops(*chat_template, runtime.tokenizer(), *request.turn.mutable_sampling());
  if (!request.session().empty()) return absl::OkStatus();
  return RenderInto(runtime, *chat_template, {}, chat);
}

// The last tokens of a session, and where it stands; none of one that is not there yet.
struct SessionEnd {
  std::vector<int32_t> tail;
  int64_t position = 0;
};
absl::StatusOr<SessionEnd> EndOf(SessionStore& sessions, const std::string& id) {
  SessionEnd end;
  const absl::StatusOr<SessionRecord> record = sessions.Get(id);
  if (absl::IsNotFound(record.status())) return end;
  FERMATA_RETURN_IF_ERROR(record.status());
  end.position = record->position;
  if (!record->pending_token.has_value()) return end;
  FERMATA_ASSIGN_OR_RETURN(const SamplerMemory memory,
                           SamplerMemory::Parse(record->sampler_memory));
  const auto& tokens = memory.tokens();
  const size_t count = std::min(kTailTokens, tokens.size());
  end.tail.assign(tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end());
  if (end.tail.empty()) end.tail.push_back(*record->pending_token);
  return end;
}

// On the threads of the session store. The turn runs only if the session still stands where the
// messages were written for.
absl::Status RenderOnSession(OpenAiService& service, Runtime& runtime, const std::string& body,
                             ChatRequest& chat) {
  OpenAiRequest& request = chat.request;
  v1::SessionRef& session = *request.turn.mutable_session();
  const KeptPrompts::Key key = {request.turn.tenant(), request.idempotency_key};
  if (!request.idempotency_key.empty()) {
    auto kept = service.prompts().Find(key, body);
    if (kept.has_value() && service.front().answers->Find(key.first, key.second).ok()) {
      session.set_expected_position(kept->position);
      request.prompts.emplace_back().prompt.token_ids = std::move(kept->token_ids);
      return absl::OkStatus();
    }
  }
  FERMATA_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, service.chat_template(runtime));
  FERMATA_ASSIGN_OR_RETURN(SessionEnd end, EndOf(runtime.sessions(), session.id()));
  session.set_expected_position(end.position);
  FERMATA_RETURN_IF_ERROR(RenderInto(runtime, *chat_template, std::move(end.tail), chat));
  if (!request.idempotency_key.empty()) {
    service.prompts().Put(
        key, body, {.token_ids = request.prompts[0].prompt.token_ids, .position = end.position});
  }
  return absl::OkStatus();
}

Awaitable<absl::Status> PrepareChat(Answering& answering, Runtime& runtime, SharedChat chat) {
  const SharedService service = answering.service;
  const Front& front = service->front();
  const auto http = std::make_shared<const HttpRequest>(answering.exchange.request());
  Work read = [service, &runtime, http, chat] { return ReadChat(*service, runtime, *http, *chat); };
  const absl::Status done = co_await RunOn(*front.helper, answering.exchange, std::move(read));
  if (!done.ok() || chat->request.session().empty()) co_return done;
  const absl::Status keeps = CheckKeepsSessions(runtime.model());
  if (!keeps.ok()) co_return keeps;
  Work render = [service, &runtime, http, chat] {
    return RenderOnSession(*service, runtime, http->body, *chat);
  };
  const absl::Status rendered =
      co_await RunOn(*front.sessions, answering.exchange, std::move(render));
  co_return RenameField(rendered, chat->request.names);
}

}  // namespace

Awaitable<void> CreateCompletion(SharedService service, HttpExchange& outer) {
  Answering answering(service, outer, "CreateCompletion");
  const absl::StatusOr<Runtime*> runtime = service->front().serving->runtime();
  if (!runtime.ok()) {
    co_await Refuse(answering, runtime.status());
    co_return;
  }
  const auto http = std::make_shared<const HttpRequest>(outer.request());
  const auto request = std::make_shared<OpenAiRequest>();
  Work read = [runtime = *runtime, http, request]() -> absl::Status {
    FERMATA_ASSIGN_OR_RETURN(
        *request, ReadCompletionRequest(*http, runtime->model().name, runtime->tokenizer()));
    return absl::OkStatus();
  };
  const absl::Status done =
      co_await RunOn(*service->front().helper, answering.exchange, std::move(read));
  if (!done.ok()) {
    co_await Refuse(answering, done);
    co_return;
  }
  auto shape = std::make_shared<CompletionReply>(ShapeOptions(**runtime, *request, "cmpl-"));
  co_await Answer(answering, *request, std::move(shape));
}

Awaitable<void> CreateChatCompletion(SharedService service, HttpExchange& outer) {
  Answering answering(service, outer, "CreateChatCompletion");
  const absl::StatusOr<Runtime*> runtime = service->front().serving->runtime();
  if (!runtime.ok()) {
    co_await Refuse(answering, runtime.status());
    co_return;
  }
  const auto chat = std::make_shared<ChatRequest>();
  const absl::Status prepared = co_await PrepareChat(answering, **runtime, chat);
  if (!prepared.ok()) {
    co_await Refuse(answering, prepared);
    co_return;
  }
  auto shape = std::make_shared<ChatReply>(ShapeOptions(**runtime, chat->request, "chatcmpl-"));
  co_await Answer(answering, chat->request, std::move(shape));
}

}  // namespace fermata
