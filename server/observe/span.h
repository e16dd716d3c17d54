#ifndef FERMATA_SERVER_OBSERVE_SPAN_H_
#define FERMATA_SERVER_OBSERVE_SPAN_H_

#include <string_view>

#include "absl/time/time.h"
#include "server/observe/trace_context.h"

namespace fermata {

// A stretch of time in a trace that has ended. What it views must live until it is logged.
struct Span {
  std::string_view name;
  const TraceContext* trace = nullptr;
  absl::Time start;
  absl::Duration duration;
  // Of calls alone; else empty.
  std::string_view front;
  std::string_view outcome;
  std::string_view request_id;
};

// Logs `span` as an event of its own if LogOptions::spans wants spans of its trace. Thread-safe.
void LogSpan(const Span& span);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_SPAN_H_
