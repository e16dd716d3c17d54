#include "client/bench/turn.h"

namespace fermata::bench {

void Turn::Start(client::Client& client, const v1::GenerateRequest& request) {
  record.sent = clock_.Now();
  if (request.has_token_ids()) record.prompt_tokens = request.token_ids().ids_size();
  call_ = client.StartGenerate(request, this);
}

void Turn::Cancel() { call_->Cancel(); }

void Turn::OnEvent(const v1::GenerateResponse& event) {
  if (event.has_chunk()) {
    OnChunk(event.chunk());
  } else if (event.has_started()) {
    OnStarted(event.started());
  } else if (event.has_complete()) {
    record.prompt_tokens = event.complete().usage().prompt_tokens();
    record.complete = event.complete();
  }
}

void Turn::OnStarted(const v1::Started& started) {
  if (!session || session->turn == 0) return;
  record.resumed = started.position() > 0;
  record.lost_session = !record.resumed;
}

void Turn::OnChunk(const v1::Chunk& chunk) {
  const int32_t tokens = chunk.token_ids_size();
  if (tokens == 0) return;
  const double now = clock_.Now();
  if (record.first_token) record.gaps.push_back(static_cast<float>(now - record.last_token));
  record.gaps.insert(record.gaps.end(), static_cast<size_t>(tokens - 1), 0.0f);
  if (!record.first_token) record.first_token = now;
  record.last_token = now;
  record.chunks.emplace_back(now, tokens);
  counts_.tokens.fetch_add(tokens, std::memory_order_relaxed);
}

void Turn::OnDone(const absl::Status& status) {
  record.ended = clock_.Now();
  record.status = status;
  sink_->OnEnd(this);
}

}  // namespace fermata::bench
