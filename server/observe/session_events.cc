#include "server/observe/session_events.h"

#include <string>

#include "engine/base/error.h"
#include "server/observe/logging.h"

namespace fermata {

void SessionEvents::Restored(std::string_view tier, absl::Duration duration) {
  metrics_->SessionRestored(tier, duration);
}

void SessionEvents::Persisted(int64_t commits, absl::Duration duration) {
  metrics_->SessionsPersisted(commits, duration);
}

void SessionEvents::Trouble(std::string_view session_id, const absl::Status& what) {
  LogEvent(LogLevel::kError, "session_trouble",
           {{"session_id", session_id},
            {"code", absl::StatusCodeToString(what.code())},
            {"reason", DetailsOf(what).reason},
            {"message", std::string(what.message())}});
  metrics_->SessionTrouble(DetailsOf(what).reason);
}

}  // namespace fermata
