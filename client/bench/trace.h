#ifndef FERMATA_CLIENT_BENCH_TRACE_H_
#define FERMATA_CLIENT_BENCH_TRACE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::bench {

// One request of a trace.
struct TraceEntry {
  double seconds = 0;  // Since the trace's first request.
  int64_t prompt_tokens = 0;
  int64_t generate_tokens = 0;
  // Of each kTokensOfABlock tokens of the prompt in turn: equal ids, equal tokens. Empty where the
  // trace has none.
  std::vector<int64_t> blocks;
};

inline constexpr int64_t kTokensOfABlock = 512;

// A trace, in the order of time. Its kind shows in its first line:
//   TIMESTAMP,ContextTokens,GeneratedTokens         Azure's (Patel et al., "Splitwise", ISCA 2024)
//   {"timestamp": ms, "input_length", "output_length", "hash_ids"}   Mooncake's (Qin et al., FAST'25)
// INVALID_ARGUMENT "<source>: line <n>: <why>" for a line that is neither, for counts that are
// negative or above a million, for times that go backwards, and for a trace with no request.
absl::StatusOr<std::vector<TraceEntry>> ParseTrace(std::string_view text,
                                                   const std::string& source);

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_TRACE_H_
