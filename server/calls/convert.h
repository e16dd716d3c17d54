#ifndef FERMATA_SERVER_CALLS_CONVERT_H_
#define FERMATA_SERVER_CALLS_CONVERT_H_

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
#include "server/config/flags.h"

// Between the messages of fermata/v1 and the engine's structs. What comes in is checked as far as
// the engine does not check it itself; every error is INVALID_ARGUMENT and names the field.

namespace fermata {

absl::StatusOr<TurnRequest> ToTurnRequest(const v1::GenerateRequest& request,
                                          const TimeLimits& limits);
absl::StatusOr<ScoreRequest> ToScoreRequest(const v1::ScoreRequest& request);
absl::StatusOr<SessionStore::CreateOptions> ToCreateOptions(
    const v1::CreateSessionRequest& request);
absl::StatusOr<SessionStore::ListOptions> ToListOptions(const v1::ListSessionsRequest& request);
// These without the id of the session that is worked on.
absl::StatusOr<SessionStore::UpdateOptions> ToUpdateOptions(
    const v1::UpdateSessionRequest& request);
absl::StatusOr<SessionStore::ForkOptions> ToForkOptions(const v1::ForkSessionRequest& request);
absl::StatusOr<SessionStore::Expected> ToExpected(const v1::DeleteSessionRequest& request);
absl::StatusOr<SessionStore::Expected> ToExpected(const v1::RewindSessionRequest& request);
absl::StatusOr<SessionStore::Place> ToPlace(const v1::Checkpoint& checkpoint,
                                            std::string_view field);
absl::StatusOr<SessionStore::ImportOptions> ToImportOptions(const v1::ImportOptions& options);
absl::Status CheckAttach(const v1::AttachRequest& request);

// `proto` in [low, high]; refuses what is no duration at all (nanos out of range or of another
// sign).
absl::StatusOr<absl::Duration> ToDuration(const google::protobuf::Duration& proto,
                                          std::string_view field, absl::Duration low,
                                          absl::Duration high);

void FillStarted(const TurnStarted& started, const std::string& model,
                 const std::string& request_id, v1::Started* proto);
// Appends the tokens and the text of `chunk`, which follows what `proto` holds, if that is anything.
void AppendChunk(const TurnChunk& chunk, bool with_logprobs, v1::Chunk* proto);
void FillComplete(const TurnResult& result, const ModelInfo& model, v1::Complete* proto);
void FillScore(const ScoreResult& result, v1::ScoreResponse* proto);
// `defaults` are of sessions that do not say.
struct SessionDefaults {
  Durability durability = Durability::kMemory;
  int32_t max_checkpoints = 0;
};
void FillSession(const SessionRecord& record, const ModelInfo& model,
                 const SessionDefaults& defaults, v1::Session* proto);
void FillCheckpoints(const SessionRecord& record, v1::ListCheckpointsResponse* proto);
void FillModel(const ModelInfo& model, std::string_view tokenizer, v1::Model* proto);

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_CONVERT_H_
