#include "server/calls/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/cpus.h"
#include "engine/base/error.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "server/config/byte_size.h"

namespace fermata {

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Load(const ServerConfig& config,
                                                       const Observers& observers,
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
  FERMATA_RETURN_IF_ERROR(runtime->OpenSessions(config, observers.sessions));
  if (info.fixed_size_state && config.prefix_cache_bytes > 0) {
    runtime->prefixes_ = std::make_unique<PrefixCache>(PrefixCache::Options{
        .state_bytes = info.state_bytes, .memory_bytes = config.prefix_cache_bytes});
  }
  runtime->engine_ = std::make_unique<Engine>(Engine::Parts{.model = runtime->model_.get(),
                                                            .tokenizer = runtime->tokenizer_.get(),
                                                            .sessions = runtime->sessions_.get(),
                                                            .prefixes = runtime->prefixes_.get(),
                                                            .observer = observers.engine},
                                              config.engine);
  return runtime;
}

absl::Status Runtime::OpenSessions(const ServerConfig& config, SessionObserver* observer) {
  const ModelInfo& info = model_->info();
  session_fingerprint_ = absl::StrCat(info.fingerprint, "-", info.held_weights);
  const SessionTiers& tiers = config.session_tiers;
  SessionStoreOptions options;
  options.model_fingerprint = session_fingerprint_;
  options.state_bytes = info.state_bytes;
  options.memory_bytes = tiers.memory_bytes;
  options.default_ttl = config.session_ttl;
  options.default_durability = config.session_durability;
  options.default_max_checkpoints = config.session_checkpoints;
  options.observer = observer;
  if (!tiers.disk.has_value()) {
    sessions_ = std::make_unique<SessionStore>(std::move(options));
  } else if (!info.fixed_size_state) {
    return absl::InvalidArgumentError(
        "--session_tiers: the state of this model grows with the position: no disk can keep it");
  } else {
    absl::StatusOr<DiskTier::Opened> disk =
        DiskTier::Open({.directory = tiers.disk->directory,
                        .state_bytes = static_cast<size_t>(info.state_bytes),
                        .model_fingerprint = session_fingerprint_,
                        .quota_bytes = tiers.disk->quota_bytes,
                        .free_space_floor = tiers.disk->free_space_floor});
    if (!disk.ok()) {
      return absl::Status(disk.status().code(),
                          absl::StrCat("--session_tiers: disk:", tiers.disk->directory, ": ",
                                       disk.status().message()));
    }
    remarks_ = std::move(disk->remarks);
    sessions_ = std::make_unique<SessionStore>(std::move(options), *std::move(disk));
  }
  if (info.fixed_size_state && sessions_->stats().capacity < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--session_tiers: memory:", AbslUnparseFlag(ByteSize{tiers.memory_bytes}),
        " holds no session of this model, whose state has ", info.state_bytes, " bytes"));
  }
  return absl::OkStatus();
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
