#include "server/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/cpus.h"
#include "engine/base/error.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "server/byte_size.h"

namespace fermata {

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Load(const ServerConfig& config,
                                                       EngineObserver* observer,
                                                       LoadProgressFunction progress) {
  SetComputeThreads(config.compute_threads);
  SetComputeCpus(config.compute_cpus);
  std::unique_ptr<Runtime> runtime(new Runtime());
  {
    const ComputeCpusScope scope;
    FERMATA_ASSIGN_OR_RETURN(
        runtime->model_, Model::Load(config.model_dir,
                                     {.weights = config.weights, .progress = std::move(progress)}));
  }
  const ModelInfo& info = runtime->model_->info();
  FERMATA_ASSIGN_OR_RETURN(runtime->tokenizer_, Tokenizer::Load(config.model_dir, info.vocab_size));
  SessionStoreOptions sessions;
  sessions.model_fingerprint = info.fingerprint;
  sessions.state_bytes = info.state_bytes;
  sessions.memory_bytes = config.session_memory_bytes;
  sessions.default_ttl = config.session_ttl;
  runtime->sessions_ = std::make_unique<SessionStore>(std::move(sessions));
  if (info.fixed_size_state && runtime->sessions_->stats().capacity < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--session_memory: ", AbslUnparseFlag(ByteSize{config.session_memory_bytes}),
        " holds no session of this model, whose state has ", info.state_bytes, " bytes"));
  }
  runtime->engine_ = std::make_unique<Engine>(Engine::Parts{.model = runtime->model_.get(),
                                                            .tokenizer = runtime->tokenizer_.get(),
                                                            .sessions = runtime->sessions_.get(),
                                                            .observer = observer},
                                              config.engine);
  return runtime;
}

void ServingState::ReportLoading(const LoadProgress& progress) {
  load_phase_.store(progress.phase);
  load_percent_.store(static_cast<int>(100 * progress.share()));
}

std::string ServingState::LoadingText() const {
  return absl::StrCat("the model is being loaded (", std::string(LoadPhaseName(load_phase_)), ", ",
                      load_percent_.load(), " %)");
}

void ServingState::StartServing(Runtime* runtime) {
  runtime_.store(runtime);
  phase_.store(Phase::kServing);
}

absl::StatusOr<Runtime*> ServingState::runtime() const {
  Runtime* runtime = runtime_.load();
  if (runtime != nullptr) return runtime;
  return MakeError(absl::StatusCode::kUnavailable, LoadingText(),
                   {.reason = "LOADING", .metadata = {}, .retry_after = absl::Seconds(1)});
}

}  // namespace fermata
