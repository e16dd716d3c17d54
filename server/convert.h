#ifndef FERMATA_SERVER_CONVERT_H_
#define FERMATA_SERVER_CONVERT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/model/model.h"
#include "engine/scheduler/requests.h"
#include "engine/session/session_store.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/models.pb.h"
#include "fermata/v1/session.pb.h"
#include "server/flags.h"

// Between the messages of fermata/v1 and the engine's structs. What comes in is checked as far as
// the engine does not check it itself; every error is INVALID_ARGUMENT and names the field.

namespace fermata {

absl::StatusOr<TurnRequest> ToTurnRequest(const v1::GenerateRequest& request,
                                          const TimeLimits& limits);
absl::StatusOr<ScoreRequest> ToScoreRequest(const v1::ScoreRequest& request);
absl::StatusOr<SessionStore::CreateOptions> ToCreateOptions(
    const v1::CreateSessionRequest& request);
absl::StatusOr<SessionStore::ListOptions> ToListOptions(const v1::ListSessionsRequest& request);
// Without the id.
absl::StatusOr<SessionStore::UpdateOptions> ToUpdateOptions(
    const v1::UpdateSessionRequest& request);

// `proto` in [low, high]; refuses what is no duration at all (nanos out of range or of another
// sign).
absl::StatusOr<absl::Duration> ToDuration(const google::protobuf::Duration& proto,
                                          std::string_view field, absl::Duration low,
                                          absl::Duration high);

void FillStarted(const TurnStarted& started, const std::string& model,
                 const std::string& request_id, v1::Started* proto);
// Moves the text out of `chunk`.
void FillChunk(TurnChunk& chunk, bool with_logprobs, v1::Chunk* proto);
void FillComplete(const TurnResult& result, const ModelInfo& model, v1::Complete* proto);
void FillScore(const ScoreResult& result, v1::ScoreResponse* proto);
void FillSession(const SessionRecord& record, const ModelInfo& model, v1::Session* proto);
void FillModel(const ModelInfo& model, std::string_view tokenizer, v1::Model* proto);

// The lower-case name of a finish reason, for logs and metrics.
const char* FinishReasonName(FinishReason reason);

}  // namespace fermata

#endif  // FERMATA_SERVER_CONVERT_H_
