#ifndef FERMATA_SERVER_OBSERVE_SESSION_EVENTS_H_
#define FERMATA_SERVER_OBSERVE_SESSION_EVENTS_H_

#include "engine/session/session_store.h"
#include "server/observe/metrics.h"

namespace fermata {

// Counts what the session store does, and logs what needs a person's eye. Thread-safe.
class SessionEvents final : public SessionObserver {
 public:
  // `metrics` must outlive it.
  explicit SessionEvents(Metrics* metrics) : metrics_(metrics) {}

  void Restored(std::string_view tier, absl::Duration duration) override;
  void Persisted(int64_t commits, absl::Duration duration) override;
  void Trouble(std::string_view session_id, const absl::Status& what) override;

 private:
  Metrics* metrics_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_SESSION_EVENTS_H_
