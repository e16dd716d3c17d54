#ifndef FERMATA_ENGINE_SCHEDULER_VALIDATE_H_
#define FERMATA_ENGINE_SCHEDULER_VALIDATE_H_

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/scheduler/requests.h"

namespace fermata {

// What can be told of a request before any of its text is tokenized. INVALID_ARGUMENT that names the
// field; FAILED_PRECONDITION with reason UNBOUNDED_STATE for a session on a model whose state grows.
absl::Status ValidateTurn(const TurnRequest& request, const ModelInfo& model);
absl::Status ValidateScore(const ScoreRequest& request, const ModelInfo& model);

}  // namespace fermata

#endif  // FERMATA_ENGINE_SCHEDULER_VALIDATE_H_
