#include "client/cli/turn.h"

#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/output.h"
#include "client/error.h"

namespace fermata::cli {
namespace {

void Take(const v1::GenerateResponse& event, TurnOutcome* outcome) {
  switch (event.event_case()) {
    case v1::GenerateResponse::kStarted:
      outcome->session_id = event.started().session_id();
      break;
    case v1::GenerateResponse::kChunk:
      outcome->tokens += event.chunk().token_ids_size();
      // The last token of a sequence is pending: its position is how many have been consumed.
      outcome->position = event.chunk().position() + event.chunk().token_ids_size() - 1;
      break;
    case v1::GenerateResponse::kComplete:
      outcome->complete = event.complete();
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
}

}  // namespace

TurnOutcome ReadTurn(client::GenerateStream& stream, const CommonOptions& common,
                     Interrupts& interrupts, const Io& io) {
  TurnOutcome outcome;
  interrupts.SetAction([&stream] { stream.Cancel(); });
  v1::GenerateResponse event;
  while (stream.Next(&event)) {
    Take(event, &outcome);
    if (common.json) {
      io.out << ToJson(event) << std::endl;
    } else if (event.has_chunk() && !event.chunk().text().empty()) {
      io.out << event.chunk().text() << std::flush;
    }
  }
  outcome.status = stream.Finish();
  outcome.interrupted = interrupts.interrupted();
  interrupts.SetAction(nullptr);
  if (outcome.tokens > 0 && io.out_is_terminal && !common.json) io.out << std::endl;
  return outcome;
}

TurnOutcome RunTurn(client::Client& client, const CommonOptions& common,
                    const v1::GenerateRequest& request, Interrupts& interrupts, const Io& io) {
  return ReadTurn(*client.StartGenerate(request), common, interrupts, io);
}

int ReportEnd(client::Client& client, const CommonOptions& common, const TurnOutcome& outcome,
              const Ending& ending, const Io& io) {
  if (outcome.interrupted && absl::IsCancelled(outcome.status)) {
    ReportInterrupted(client, outcome, io);
    return kExitInterrupted;
  }
  if (!outcome.status.ok()) return Fail(common, outcome.status, io);
  if (ending.unnamed && !outcome.session_id.empty()) {
    io.err << "session " << outcome.session_id << "\n";
  }
  if (outcome.complete && outcome.complete->finish_reason() == v1::DRAINED) {
    io.err << "fermata: the server is shutting down; the turn ended early\n";
  }
  if (outcome.complete && outcome.complete->finish_reason() == v1::CANCELLED) {
    io.err << "fermata: the turn was cancelled when its connection was lost\n";
  }
  if (ending.stats && outcome.complete) io.err << FormatStats(*outcome.complete);
  return kExitOk;
}

void ReportInterrupted(client::Client& client, const TurnOutcome& outcome, const Io& io) {
  io.err << "fermata: interrupted after " << Grouped(outcome.tokens) << " tokens\n";
  if (outcome.session_id.empty()) return;
  // The server commits within one step, which may be after the call has ended here. Until then a
  // session that this turn makes is not there.
  constexpr int kTries = 100;
  absl::StatusOr<v1::Session> session;
  for (int i = 0; i < kTries; ++i) {
    session = client.GetSession(outcome.session_id);
    if (session.ok() ? session->position() >= outcome.position
                     : !absl::IsNotFound(session.status())) {
      break;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  if (session.ok()) {
    io.err << "session " << session->id() << " is at position " << Grouped(session->position())
           << " and goes on from there: fermata generate --session " << session->id() << "\n";
  } else {
    io.err << "session " << outcome.session_id << ": " << client::Describe(session.status())
           << "\n";
  }
}

}  // namespace fermata::cli
