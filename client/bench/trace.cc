#include "client/bench/trace.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/bench/lines.h"

namespace fermata::bench {
namespace {

constexpr int64_t kMaxTraceTokens = 1'000'000;
constexpr char kAzureHeader[] = "TIMESTAMP,ContextTokens,GeneratedTokens";

// The times are as the trace has them; ParseTrace counts them from the first.
using Entry = absl::StatusOr<TraceEntry>;

absl::Status Wrong(std::string_view why) {
  return absl::InvalidArgumentError(absl::string_view(why.data(), why.size()));
}

Entry ParseAzure(std::string_view line) {
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(line.data(), line.size()), ',');
  if (fields.size() != 3) return Wrong("has not three fields");
  TraceEntry entry;
  absl::Time time;
  std::string error;
  if (!absl::ParseTime("%Y-%m-%d %H:%M:%E*S", fields[0], &time, &error)) {
    return Wrong(absl::StrCat(fields[0], " is not a time as of 2023-11-16 18:15:46.68"));
  }
  entry.seconds = absl::ToDoubleSeconds(time - absl::UnixEpoch());
  if (!absl::SimpleAtoi(fields[1], &entry.prompt_tokens) ||
      !absl::SimpleAtoi(fields[2], &entry.generate_tokens)) {
    return Wrong(absl::StrCat(fields[1], ",", fields[2], " are not two counts"));
  }
  return entry;
}

Entry ParseMooncake(std::string_view line) {
  constexpr double kMillisecond = 1e-3;
  try {
    const auto json = nlohmann::json::parse(line);
    TraceEntry entry;
    entry.seconds = json.at("timestamp").get<double>() * kMillisecond;
    entry.prompt_tokens = json.at("input_length").get<int64_t>();
    entry.generate_tokens = json.at("output_length").get<int64_t>();
    if (json.contains("hash_ids")) entry.blocks = json["hash_ids"].get<std::vector<int64_t>>();
    return entry;
  } catch (const nlohmann::json::exception& error) {
    return Wrong(error.what());
  }
}

absl::Status Check(const TraceEntry& entry, const std::vector<TraceEntry>& before) {
  for (const int64_t tokens : {entry.prompt_tokens, entry.generate_tokens}) {
    if (tokens < 0 || tokens > kMaxTraceTokens) {
      return Wrong(absl::StrCat(tokens, " is not a number of tokens from 0 to ", kMaxTraceTokens));
    }
  }
  if (!before.empty() && entry.seconds < before.back().seconds) {
    return Wrong("is earlier than the line before");
  }
  const int64_t blocks = (entry.prompt_tokens + kTokensOfABlock - 1) / kTokensOfABlock;
  if (!entry.blocks.empty() && static_cast<int64_t>(entry.blocks.size()) < blocks) {
    return Wrong(absl::StrCat("has ", entry.blocks.size(), " hash_ids for ", entry.prompt_tokens,
                              " tokens, which are ", blocks, " blocks"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TraceEntry>> ParseTrace(std::string_view text,
                                                   const std::string& source) {
  std::vector<TraceEntry> entries;
  Lines lines(text);
  bool azure = false;
  while (const auto line = lines.Next()) {
    if (lines.number() == 1 && *line == kAzureHeader) {
      azure = true;
      continue;
    }
    if (line->empty()) continue;
    Entry entry = azure ? ParseAzure(*line) : ParseMooncake(*line);
    const absl::Status status = entry.ok() ? Check(*entry, entries) : entry.status();
    if (!status.ok()) return lines.Error(source, status.message());
    entries.push_back(*std::move(entry));
  }
  if (entries.empty()) return Wrong(source + ": has no request");
  const double begin = entries.front().seconds;
  for (TraceEntry& entry : entries) entry.seconds -= begin;
  return entries;
}

}  // namespace fermata::bench
