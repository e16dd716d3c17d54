#include "client/bench/options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fermata::bench {
namespace {

constexpr int64_t kMaxTokens = 1 << 20;

bool ParseCount(std::string_view text, int64_t* count) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), count) && *count >= 0 &&
         *count <= kMaxTokens;
}

}  // namespace

absl::StatusOr<TokenRange> ParseTokenRange(std::string_view text) {
  const size_t colon = text.find(':');
  TokenRange range;
  const bool ok = ParseCount(text.substr(0, colon), &range.min) &&
                  ParseCount(colon == text.npos ? text : text.substr(colon + 1), &range.max);
  if (ok && range.min <= range.max) return range;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(text), " is not N or MIN:MAX, of up to ", kMaxTokens));
}

std::string FormatTokenRange(const TokenRange& range) {
  return range.min == range.max ? absl::StrCat(range.min) : absl::StrCat(range.min, ":", range.max);
}

Options OpeningOf(const Options& options) {
  constexpr int64_t kAtOnce = 64;
  return {.load = LoadKind::kClosedLoop,
          .concurrency = std::min(options.sessions, kAtOnce),
          .prompt_tokens = {1, 1},
          .generate_tokens = {1, 1},
          .sessions = options.sessions,
          .requests = options.sessions,
          .seed = options.seed};
}

absl::Status Validate(const Options& options) {
  const auto wrong = [](const char* what) { return absl::InvalidArgumentError(what); };
  const bool trace = options.load == LoadKind::kTrace;
  if (options.prompts.empty() && !trace && options.prompt_tokens.min == 0) {
    return wrong("--prompt-tokens: a prompt needs at least one token");
  }
  if (options.sessions == 0 && options.session_turns > 0) {
    return wrong("--session-turns needs --sessions");
  }
  if (options.sessions == 0 && options.session_zipf > 0) {
    return wrong("--session-zipf needs --sessions");
  }
  if (options.sessions == 0 && options.open_sessions) {
    return wrong("--open-sessions needs --sessions");
  }
  if (options.think_time > absl::ZeroDuration() && options.load != LoadKind::kClosedLoop) {
    return wrong("--think-time needs a closed loop: --concurrency");
  }
  if (options.duration && *options.duration <= options.warmup) {
    return wrong("--duration, which includes --warmup, must be longer than it");
  }
  return absl::OkStatus();
}

}  // namespace fermata::bench
