#include "server/openai/reply_writer.h"

#include <utility>

#include "server/http/answer.h"
#include "server/http/http_error.h"
#include "server/http/json.h"

namespace fermata {
namespace {

using nlohmann::ordered_json;

// Tokens with log-probabilities whose JSON is made in no time.
constexpr size_t kFewTokens = 512;

std::string Event(const ordered_json& json) { return "data: " + Dump(json) + "\n\n"; }

ordered_json ChunkOf(const ReplyShape& shape, const ReplyPiece& piece, bool include_usage) {
  ordered_json chunk = shape.Chunk();
  chunk["choices"].push_back(shape.ChunkChoice(piece));
  if (include_usage) chunk["usage"] = nullptr;
  return chunk;
}

}  // namespace

ReplyWriter::ReplyWriter(HttpExchange& exchange, Options options)
    : exchange_(exchange), options_(std::move(options)), choices_(options_.choices) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<int>(i);
    choices_[i].first = true;
  }
}

HttpHeaders ReplyWriter::Headers() const {
  HttpHeaders headers;
  if (!options_.session.empty()) headers.emplace_back("X-Session-Id", options_.session);
  return headers;
}

Awaitable<bool> ReplyWriter::Begin() {
  if (!options_.stream || std::exchange(begun_, true)) co_return true;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = Headers();
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  co_return co_await exchange_.BeginStream(std::move(head));
}

Awaitable<bool> ReplyWriter::Ping() {
  if (!options_.stream) co_return true;
  const bool begun = co_await Begin();
  if (!begun) co_return false;
  std::string comment = ": ping\n\n";
  co_return co_await exchange_.Write(std::move(comment));
}

Awaitable<bool> ReplyWriter::Announce(int index) {
  if (!options_.stream || !options_.shape->announces_choices()) co_return co_await Begin();
  ReplyPiece nothing;
  nothing.index = index;
  co_return co_await Add(std::move(nothing));
}

Awaitable<absl::StatusOr<std::string>> ReplyWriter::Make(size_t tokens,
                                                         std::function<std::string()> make) {
  if (tokens <= kFewTokens) co_return make();
  std::function<absl::StatusOr<std::string>()> work = std::move(make);
  co_return co_await RunOn(*options_.helper, exchange_, std::move(work));
}

Awaitable<bool> ReplyWriter::Add(ReplyPiece piece) {
  ReplyPiece& choice = choices_[piece.index];
  if (!options_.stream) {
    choice.Append(std::move(piece));
    co_return true;
  }
  const bool begun = co_await Begin();
  if (!begun) co_return false;
  piece.text_offset = choice.text_offset;
  choice.text_offset += CountCharacters(piece.text);
  piece.first = std::exchange(choice.first, false);
  // The last chunk of all is only known, and completed, at the end.
  std::string events;
  if (held_.has_value()) events = Event(*std::exchange(held_, std::nullopt));
  if (piece.finish.has_value()) {
    held_ = ChunkOf(*options_.shape, piece, options_.include_usage);
  } else {
    const size_t tokens = piece.tokens.size();
    std::function<std::string()> make = [shape = options_.shape, piece = std::move(piece),
                                         include_usage = options_.include_usage] {
      return Event(ChunkOf(*shape, piece, include_usage));
    };
    const absl::StatusOr<std::string> event = co_await Make(tokens, std::move(make));
    if (!event.ok()) co_return false;
    events += *event;
  }
  if (events.empty()) co_return true;
  co_return co_await exchange_.Write(std::move(events));
}

Awaitable<void> ReplyWriter::Finish(const ReplyUsage& usage,
                                    std::optional<v1::SessionAfter> session) {
  if (options_.stream) {
    co_await FinishStream(usage, std::move(session));
  } else {
    co_await FinishWhole(usage, std::move(session));
  }
}

Awaitable<void> ReplyWriter::FinishWhole(const ReplyUsage& usage,
                                         std::optional<v1::SessionAfter> session) {
  size_t tokens = 0;
  for (const ReplyPiece& choice : choices_) tokens += choice.tokens.size();
  std::function<std::string()> make = [shape = options_.shape, choices = std::move(choices_), usage,
                                       session = std::move(session)] {
    ordered_json whole = shape->Whole();
    for (const ReplyPiece& choice : choices) {
      whole["choices"].push_back(shape->WholeChoice(choice));
    }
    whole["usage"] = UsageJson(usage);
    if (session.has_value()) whole["session"] = SessionJson(*session);
    return Dump(whole) + "\n";
  };
  absl::StatusOr<std::string> body = co_await Make(tokens, std::move(make));
  if (!body.ok()) {
    const absl::Status status = body.status();
    co_await Fail(status);
    co_return;
  }
  HttpResponse response = JsonResponse(*std::move(body));
  response.headers = Headers();
  co_await exchange_.Reply(std::move(response));
}

Awaitable<void> ReplyWriter::FinishStream(const ReplyUsage& usage,
                                          std::optional<v1::SessionAfter> session) {
  const bool begun = co_await Begin();
  if (!begun) co_return;
  std::string events;
  ordered_json last = options_.shape->Chunk();
  if (held_.has_value() && options_.include_usage) events = Event(*held_);
  if (held_.has_value() && !options_.include_usage) last = *std::move(held_);
  if (options_.include_usage) last["usage"] = UsageJson(usage);
  if (session.has_value()) last["session"] = SessionJson(*session);
  events += Event(last) + "data: [DONE]\n\n";
  const bool written = co_await exchange_.Write(std::move(events));
  if (written) co_await exchange_.EndStream();
}

Awaitable<void> ReplyWriter::Fail(const absl::Status& status) {
  if (!begun_) {
    HttpResponse response = ErrorResponse(status);
    for (auto& header : Headers()) response.headers.push_back(std::move(header));
    co_await exchange_.Reply(std::move(response));
    co_return;
  }
  std::string events;
  if (held_.has_value()) events = Event(*std::exchange(held_, std::nullopt));
  events += Event(ErrorBody(status)) + "data: [DONE]\n\n";
  const bool written = co_await exchange_.Write(std::move(events));
  if (written) co_await exchange_.EndStream();
}

}  // namespace fermata
