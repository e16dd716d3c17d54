#ifndef FERMATA_CLIENT_BENCH_OPTIONS_H_
#define FERMATA_CLIENT_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fermata::bench {

// A number of tokens, drawn evenly from [min, max].
struct TokenRange {
  int64_t min = 0;
  int64_t max = 0;

  bool operator==(const TokenRange&) const = default;
};

// "N" or "MIN:MAX". INVALID_ARGUMENT for anything else.
absl::StatusOr<TokenRange> ParseTokenRange(std::string_view text);
std::string FormatTokenRange(const TokenRange& range);

enum class LoadKind {
  kClosedLoop,  // So many clients, each of which waits for its answer.
  kPoisson,     // So many requests a second, whatever becomes of them.
  kConstant,
  kTrace,  // As they once came.
};

// What a run sends, and for how long. The defaults are those of the command's flags.
struct Options {
  LoadKind load = LoadKind::kClosedLoop;
  int64_t concurrency = 1;             // Closed loop.
  absl::Duration think_time;           // Closed loop: from an answer to the next request.
  double rate = 0;                     // Poisson and constant: requests a second.
  std::string trace;                   // A file.
  double trace_speed = 1;              // 2: twice as fast as it was.
  std::string prompts;                 // A file; empty: token ids at random.
  TokenRange prompt_tokens{128, 128};  // Of these.
  TokenRange generate_tokens{64, 64};  // But of traces, which say it themselves.
  std::optional<float> temperature;    // Unset: the server's default, as below.
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  int64_t sessions = 0;                    // 0: no request is of a session.
  int64_t session_turns = 0;               // Then a new session takes its place; 0: never.
  double session_zipf = 0;                 // Exponent; 0: all sessions alike.
  bool open_sessions = false;              // Have them all made before the run.
  bool keep_sessions = false;              // Do not delete them in the end.
  std::optional<absl::Duration> duration;  // Send for so long, warm-up included.
  std::optional<int64_t> requests;         // Send so many, beside those of the warm-up.
  absl::Duration warmup;
  absl::Duration grace = absl::Seconds(30);  // Time to finish for what runs at the end.
  uint64_t seed = 1;
  int connections = 1;
  std::optional<absl::Duration> slo_ttft;
  std::optional<absl::Duration> slo_itl;
  std::string metrics_url;  // Empty: the server's by default; "off".
};

// What is to be sent beforehand so that all sessions are there, each with one turn.
Options OpeningOf(const Options& options);

// INVALID_ARGUMENT that names the flags where they do not go together.
absl::Status Validate(const Options& options);

// How long a run without a trace sends that is given neither a time nor a count.
inline constexpr absl::Duration kDefaultDuration = absl::Seconds(30);

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_OPTIONS_H_
