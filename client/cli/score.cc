#include "client/cli/score.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/error.h"

namespace fermata::cli {
namespace {

// Scores one record, and again after the time that the server names while it is full.
absl::StatusOr<v1::ScoreResponse> ScoreOne(client::Client& client,
                                           const v1::ScoreRequest& request) {
  constexpr int kTries = 20;
  for (int i = 0;; ++i) {
    absl::StatusOr<v1::ScoreResponse> reply = client.Score(request);
    if (reply.ok() || !absl::IsResourceExhausted(reply.status()) || i == kTries) return reply;
    const auto retry_after = client::DetailsOf(reply.status()).retry_after;
    if (!retry_after) return reply;
    absl::SleepFor(*retry_after);
  }
}

// All records' replies, in order; or the first error that came.
absl::StatusOr<std::vector<v1::ScoreResponse>> ScoreAll(
    client::Client& client, const std::vector<v1::ScoreRequest>& requests, int in_flight) {
  std::vector<v1::ScoreResponse> replies(requests.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status failure;
  const auto work = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) {
      absl::StatusOr<v1::ScoreResponse> reply = ScoreOne(client, requests[i]);
      if (reply.ok()) {
        replies[i] = *std::move(reply);
        continue;
      }
      const std::lock_guard lock(mutex);
      failure.Update(reply.status());
      next = requests.size();
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(static_cast<size_t>(in_flight), requests.size());
  for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (!failure.ok()) return failure;
  return replies;
}

struct Totals {
  int64_t records = 0;
  int64_t tokens = 0;  // Scored.
  double logprob = 0;
  int64_t bytes = 0;  // That bits per byte are counted over.
};

void PrintTotals(const CommonOptions& common, const Totals& totals, const Io& io) {
  const double tokens = static_cast<double>(totals.tokens);
  const double bits_per_byte =
      -totals.logprob / std::log(2.0) / static_cast<double>(std::max<int64_t>(totals.bytes, 1));
  if (common.json) {
    io.out << nlohmann::ordered_json{{"total",
                                      {{"records", totals.records},
                                       {"tokens", totals.tokens},
                                       {"bytes", totals.bytes},
                                       {"total_logprob", totals.logprob},
                                       {"bits_per_byte", bits_per_byte}}}}
                  .dump()
           << "\n";
    return;
  }
  io.out << absl::StrFormat(
      "records         %s\ntokens          %s\nbytes           %s\ntotal logprob   %.4f\n"
      "nats per token  %.4f\nbits per byte   %.4f\n",
      Grouped(totals.records), Grouped(totals.tokens), Grouped(totals.bytes), totals.logprob,
      totals.tokens == 0 ? 0.0 : -totals.logprob / tokens, bits_per_byte);
}

void PrintTokens(const CommonOptions& common, const v1::ScoreResponse& reply, const Io& io) {
  if (common.json) {
    io.out << ToJson(reply) << "\n";
    return;
  }
  for (const v1::TokenLogprobs& token : reply.logprobs()) {
    io.out << absl::StrFormat("%8d  %10.5f\n", token.token_id(), token.logprob());
  }
}

}  // namespace

std::vector<std::string_view> SplitRecords(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> records;
  size_t begin = 0;  // Of the record at hand.
  const auto add = [&](size_t end) {
    if (end > begin) records.push_back(text.substr(begin, end - begin));
  };
  for (size_t line = 0; line < text.size();) {
    const size_t newline = text.find('\n', line);
    const size_t end = newline == std::string_view::npos ? text.size() : newline;
    const size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
    if (text.substr(line, end - line) == separator) {
      add(line > 0 ? line - 1 : 0);
      begin = next;
    }
    line = next;
  }
  add(text.size());
  return records;
}

std::vector<v1::ScoreRequest> ScoreRequests(const ScoreCommand& command, std::string_view text) {
  std::vector<v1::ScoreRequest> requests;
  v1::ScoreRequest request = command.request;
  if (command.separator.empty()) {
    request.set_text(std::string(text));
    requests.push_back(request);
    return requests;
  }
  request.set_parse_special(true);
  request.set_context_text(command.separator);
  for (const std::string_view record : SplitRecords(text, command.separator)) {
    request.set_text(
        absl::StrCat(absl::string_view(record.data(), record.size()), command.separator));
    requests.push_back(request);
  }
  return requests;
}

int RunScore(const CommonOptions& common, const ScoreCommand& command, const Io& io) {
  TextSource source = command.text;
  if (!source.argument && !source.file) source.file = "-";
  const absl::StatusOr<std::optional<std::string>> text = ReadText(source, io.in);
  if (!text.ok()) return Fail(common, text.status(), io);
  client::Client client(OptionsOf(common));
  const auto replies = ScoreAll(client, ScoreRequests(command, **text), command.in_flight);
  if (!replies.ok()) return Fail(common, replies.status(), io);
  Totals totals;
  for (const v1::ScoreResponse& reply : *replies) {
    if (command.show_tokens) PrintTokens(common, reply, io);
    ++totals.records;
    totals.tokens += reply.logprobs_size();
    totals.logprob += reply.total_logprob();
    totals.bytes += reply.scored_bytes();
  }
  // The separator lines' newlines belong to the file, but to no record.
  if (!command.separator.empty()) totals.bytes = static_cast<int64_t>((*text)->size());
  PrintTotals(common, totals, io);
  return kExitOk;
}

}  // namespace fermata::cli
