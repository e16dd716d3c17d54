#ifndef FERMATA_SERVER_OBSERVE_FINISH_REASON_H_
#define FERMATA_SERVER_OBSERVE_FINISH_REASON_H_

#include <array>

#include "engine/scheduler/requests.h"

namespace fermata {

inline constexpr std::array kFinishReasons = {FinishReason::kStop,      FinishReason::kStopToken,
                                              FinishReason::kLength,    FinishReason::kCancelled,
                                              FinishReason::kTimeLimit, FinishReason::kDrained};

// In lower case, as metrics and logs have it, for example "time_limit".
const char* FinishReasonName(FinishReason reason);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_FINISH_REASON_H_
