#include <utility>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "server/calls/convert.h"

namespace fermata {
namespace {

void FillDuration(absl::Duration duration, google::protobuf::Duration* proto) {
  proto->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

void FillTime(absl::Time time, google::protobuf::Timestamp* proto) {
  // Timestamps count nanos upwards, also before 1970.
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto->set_seconds(seconds);
  proto->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void FillLogprobs(const SampledToken& token, v1::TokenLogprobs* proto) {
  proto->set_token_id(token.token);
  proto->set_logprob(token.logprob);
  for (const TokenLogprob& top : token.top) {
    v1::TopLogprob* entry = proto->add_top();
    entry->set_token_id(top.token);
    entry->set_logprob(top.logprob);
  }
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::STOP;
    case FinishReason::kStopToken:
      return v1::STOP_TOKEN;
    case FinishReason::kLength:
      return v1::LENGTH;
    case FinishReason::kCancelled:
      return v1::CANCELLED;
    case FinishReason::kTimeLimit:
      return v1::TIME_LIMIT;
    case FinishReason::kDrained:
      return v1::DRAINED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::Durability ToProto(Durability durability) {
  return durability == Durability::kDisk ? v1::DISK : v1::MEMORY;
}

}  // namespace

void FillStarted(const TurnStarted& started, const std::string& model,
                 const std::string& request_id, v1::Started* proto) {
  proto->set_session_id(started.session_id);
  proto->set_position(started.position);
  proto->set_model(model);
  proto->set_request_id(request_id);
}

void AppendChunk(const TurnChunk& chunk, bool with_logprobs, v1::Chunk* proto) {
  if (proto->token_ids().empty() && proto->text().empty()) {
    proto->set_index(chunk.index);
    proto->set_position(chunk.position);
  }
  for (const SampledToken& token : chunk.tokens) {
    proto->add_token_ids(token.token);
    if (with_logprobs) FillLogprobs(token, proto->add_logprobs());
  }
  proto->mutable_text()->append(chunk.text);
}

void FillComplete(const TurnResult& result, const ModelInfo& model, v1::Complete* proto) {
  proto->set_finish_reason(ToProto(result.reason));
  proto->set_matched_stop(result.matched_stop);
  proto->mutable_usage()->set_prompt_tokens(result.prompt_tokens);
  proto->mutable_usage()->set_generated_tokens(result.generated_tokens);
  proto->mutable_usage()->set_cached_tokens(result.cached_tokens);
  v1::Timings* timings = proto->mutable_timings();
  FillDuration(result.timings.queue, timings->mutable_queue());
  FillDuration(result.timings.prefill, timings->mutable_prefill());
  if (result.timings.time_to_first_token.has_value()) {
    FillDuration(*result.timings.time_to_first_token, timings->mutable_time_to_first_token());
  }
  FillDuration(result.timings.decode, timings->mutable_decode());
  if (result.session.has_value()) {
    v1::SessionAfter* session = proto->mutable_session();
    session->set_id(result.session->id);
    session->set_position(result.session->position);
    session->set_state_bytes(model.state_bytes);
    session->set_kv_equivalent_bytes(result.session->position *
                                     model.kv_equivalent_bytes_per_token);
  }
  proto->set_seed(result.seed);
}

void FillScore(const ScoreResult& result, v1::ScoreResponse* proto) {
  for (const SampledToken& token : result.tokens) FillLogprobs(token, proto->add_logprobs());
  proto->set_total_logprob(result.total_logprob);
  proto->set_scored_bytes(result.scored_bytes);
  proto->mutable_token_ids()->Add(result.token_ids.begin(), result.token_ids.end());
}

void FillSession(const SessionRecord& record, const ModelInfo& model,
                 const SessionDefaults& defaults, v1::Session* proto) {
  proto->set_id(record.id);
  proto->set_position(record.position);
  if (record.pending_token.has_value()) proto->set_pending_token(*record.pending_token);
  proto->set_state_bytes(model.state_bytes);
  proto->set_kv_equivalent_bytes(record.position * model.kv_equivalent_bytes_per_token);
  for (const auto& [key, value] : record.labels) (*proto->mutable_labels())[key] = value;
  FillTime(record.create_time, proto->mutable_create_time());
  FillTime(record.update_time, proto->mutable_update_time());
  if (record.ttl.has_value()) FillDuration(*record.ttl, proto->mutable_time_to_live());
  proto->set_turns(static_cast<int64_t>(record.turns));
  proto->set_revision(record.revision);
  proto->set_durability(ToProto(record.durability.value_or(defaults.durability)));
  proto->set_max_checkpoints(record.max_checkpoints.value_or(defaults.max_checkpoints));
  proto->set_checkpoints(static_cast<int32_t>(record.checkpoints.size()));
  proto->set_pinned(record.pinned);
  proto->set_parent_id(record.parent_id);
  proto->set_parent_position(record.parent_position);
}

void FillCheckpoints(const SessionRecord& record, v1::ListCheckpointsResponse* proto) {
  for (const Checkpoint& checkpoint : record.checkpoints) {
    v1::CheckpointInfo* info = proto->add_checkpoints();
    info->set_position(checkpoint.position);
    info->set_turns(static_cast<int64_t>(checkpoint.turns));
    FillTime(checkpoint.time, info->mutable_time());
  }
}

void FillModel(const ModelInfo& model, std::string_view tokenizer, v1::Model* proto) {
  proto->set_name(model.name);
  proto->set_family(model.family);
  proto->set_fingerprint(model.fingerprint);
  proto->set_weights_dtype(model.weights_dtype);
  proto->set_parameters(model.parameters);
  proto->set_num_layers(model.num_layers);
  proto->set_hidden_size(model.hidden_size);
  proto->set_vocab_size(model.vocab_size);
  proto->set_tokenizer(std::string(tokenizer));
  proto->mutable_eos_token_ids()->Add(model.eos_token_ids.begin(), model.eos_token_ids.end());
  proto->set_state_bytes(model.state_bytes);
  proto->set_kv_equivalent_bytes_per_token(model.kv_equivalent_bytes_per_token);
  proto->set_break_even_tokens(model.break_even_tokens());
  proto->set_fixed_size_state(model.fixed_size_state);
  for (const std::string& remark : model.remarks) proto->add_remarks(remark);
}

}  // namespace fermata
