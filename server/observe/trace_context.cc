#include "server/observe/trace_context.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/strings/str_format.h"

namespace fermata {
namespace {

constexpr size_t kTraceIdDigits = 32;
constexpr size_t kSpanIdDigits = 16;
// Version, trace, span and flags, with dashes between them.
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = kTraceAt + kTraceIdDigits + 1;
constexpr size_t kFlagsAt = kSpanAt + kSpanIdDigits + 1;
constexpr size_t kSize = kFlagsAt + 2;

bool IsHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

int Digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// 16 digits that are not all zero. Ids need not be secret, only different.
std::string RandomId() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  uint64_t id = 0;
  while (id == 0) id = generator();
  return absl::StrFormat("%016x", id);
}

bool IsValid(std::string_view header) {
  if (header.size() < kSize) return false;
  const std::string_view version = header.substr(0, 2);
  if (!IsHex(version) || version == "ff") return false;
  // A later version may have more, behind another dash.
  if (header.size() > kSize && (version == "00" || header[kSize] != '-')) return false;
  const std::string_view trace = header.substr(kTraceAt, kTraceIdDigits);
  const std::string_view span = header.substr(kSpanAt, kSpanIdDigits);
  return header[kTraceAt - 1] == '-' && header[kSpanAt - 1] == '-' && header[kFlagsAt - 1] == '-' &&
         IsHex(trace) && !IsZero(trace) && IsHex(span) && !IsZero(span) &&
         IsHex(header.substr(kFlagsAt, 2));
}

}  // namespace

TraceContext TraceContext::FromHeader(std::optional<std::string_view> traceparent) {
  TraceContext context;
  context.span_id = RandomId();
  if (!traceparent.has_value() || !IsValid(*traceparent)) {
    context.trace_id = RandomId() + RandomId();
    return context;
  }
  context.trace_id = traceparent->substr(kTraceAt, kTraceIdDigits);
  context.parent_span_id = traceparent->substr(kSpanAt, kSpanIdDigits);
  context.sampled = (Digit((*traceparent)[kFlagsAt + 1]) & 1) != 0;
  return context;
}

TraceContext TraceContext::Child() const {
  return {
      .trace_id = trace_id, .span_id = RandomId(), .parent_span_id = span_id, .sampled = sampled};
}

}  // namespace fermata
