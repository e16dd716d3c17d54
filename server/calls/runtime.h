#ifndef FERMATA_SERVER_CALLS_RUNTIME_H_
#define FERMATA_SERVER_CALLS_RUNTIME_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/scheduler/engine.h"
#include "engine/session/disk_tier.h"
#include "engine/session/prefix_cache.h"
#include "engine/session/session_store.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/config/flags.h"

namespace fermata {

// A loaded model with all that serves it. Thread-safe as its parts are.
class Runtime {
 public:
  // Both must outlive the runtime.
  struct Observers {
    EngineObserver* engine = nullptr;
    SessionObserver* sessions = nullptr;
  };
  // Loads the model of `config.model_dir`, which must be resolved, and opens the sessions' disk, if
  // there is one. Errors say what is wrong with the directory, or name the flag that does not fit the
  // model. `progress` may be null.
  static absl::StatusOr<std::unique_ptr<Runtime>> Load(const ServerConfig& config,
                                                       const Observers& observers,
                                                       LoadProgressFunction progress);

  const ModelInfo& model() const { return model_->info(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // What sessions must have been made with, to be gone on with here: the model, and how its weights
  // are held.
  const std::string& session_fingerprint() const { return session_fingerprint_; }
  // Null when there is none.
  const PrefixCache* prefixes() const { return prefixes_.get(); }
  // What was amiss in the sessions' directory.
  const std::vector<DiskTier::Remark>& remarks() const { return remarks_; }
  SessionStore& sessions() { return *sessions_; }
  Engine& engine() { return *engine_; }

 private:
  Runtime() = default;
  absl::Status OpenSessions(const ServerConfig& config, SessionObserver* observer);

  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string session_fingerprint_;
  std::vector<DiskTier::Remark> remarks_;
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<PrefixCache> prefixes_;
  std::unique_ptr<Engine> engine_;  // Last: it uses the others until it is gone.
};

// Where the server is in its life, and its runtime as soon as there is one. Thread-safe.
class ServingState {
 public:
  enum class Phase { kLoading, kServing, kDraining };

  // How far the loading is, for those who ask meanwhile.
  void ReportLoading(const LoadProgress& progress);
  // "the model is being loaded (weights, 43 %)".
  std::string LoadingText() const;

  // `runtime` must outlive the state.
  void StartServing(Runtime* runtime);
  void StartDraining() { phase_.store(Phase::kDraining); }
  Phase phase() const { return phase_.load(); }

  // UNAVAILABLE with reason LOADING and a time to retry before StartServing. While draining there
  // still is a runtime: its engine refuses new turns.
  absl::StatusOr<Runtime*> runtime() const;

 private:
  std::atomic<Phase> phase_ = Phase::kLoading;
  std::atomic<Runtime*> runtime_ = nullptr;
  std::atomic<LoadProgress::Phase> load_phase_ = LoadProgress::Phase::kWeights;
  std::atomic<int> load_percent_ = 0;  // Of the phase.
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_RUNTIME_H_
