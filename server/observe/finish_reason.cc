#include "server/observe/finish_reason.h"

namespace fermata {

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kTimeLimit:
      return "time_limit";
    case FinishReason::kDrained:
      return "drained";
  }
  return "unknown";
}

}  // namespace fermata
