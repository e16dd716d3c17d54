#ifndef FERMATA_SERVER_OBSERVE_LOAD_LOG_H_
#define FERMATA_SERVER_OBSERVE_LOAD_LOG_H_

#include "absl/time/time.h"
#include "engine/model/load_progress.h"

namespace fermata {

// Logs how far the loading of the model is: at its beginning, and no more than once a second.
class LoadLog {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Logs `progress` if it is time to. Returns whether it did.
  bool Report(const LoadProgress& progress, absl::Time now);

 private:
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_LOAD_LOG_H_
