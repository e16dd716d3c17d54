#include "server/observe/span.h"

#include <string>

#include "server/observe/logging.h"

namespace fermata {

void LogSpan(const Span& span) {
  const TraceContext& trace = *span.trace;
  if (trace.trace_id.empty() || !LogsSpans(trace.sampled)) return;
  const std::string start =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", span.start, absl::UTCTimeZone());
  LogEvent(LogLevel::kInfo, "span",
           {{"name", span.name},
            {"trace_id", trace.trace_id},
            {"span_id", trace.span_id},
            {"parent_span_id", trace.parent_span_id},
            {"start", start},
            {"duration_seconds", absl::ToDoubleSeconds(span.duration)},
            {"front", span.front},
            {"outcome", span.outcome},
            {"request_id", span.request_id}});
}

}  // namespace fermata
