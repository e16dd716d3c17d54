#ifndef FERMATA_SERVER_OBSERVE_TRACE_CONTEXT_H_
#define FERMATA_SERVER_OBSERVE_TRACE_CONTEXT_H_

#include <optional>
#include <string>
#include <string_view>

namespace fermata {

// A call's place in a trace, as W3C's Trace Context has it (https://www.w3.org/TR/trace-context/).
struct TraceContext {
  std::string trace_id;        // 32 lower-case hexadecimal digits; empty for none.
  std::string span_id;         // Of this call: 16 such digits.
  std::string parent_span_id;  // Of the caller; empty where the trace begins here.
  bool sampled = false;        // The caller asks that the trace be recorded.

  // A new span: in the trace that the header `traceparent` tells of, or in a new trace, not sampled,
  // where there is none or it breaks the rules. Of versions above 00 the fields that 00 has are
  // read. Thread-safe.
  static TraceContext FromHeader(std::optional<std::string_view> traceparent);

  // A new span under this one.
  TraceContext Child() const;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_TRACE_CONTEXT_H_
