#include "server/observe/logging.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpc/support/log.h"
#include "nlohmann/json.hpp"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace fermata {
namespace {

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_.:/+@").find(c) != std::string_view::npos;
  });
}

std::string Value(LogFormat format, const LogField& field) {
  if (const auto* integer = std::get_if<int64_t>(&field.value)) return absl::StrCat(*integer);
  if (const auto* number = std::get_if<double>(&field.value)) {
    // JSON knows no infinity.
    if (!std::isfinite(*number)) return "null";
    return absl::StrFormat("%.6g", *number);
  }
  const auto text = std::get<std::string_view>(field.value);
  return format == LogFormat::kText && IsPlain(text) ? std::string(text) : JsonString(text);
}

struct Log {
  LogFormat format = LogFormat::kText;
  LogSpans spans = LogSpans::kSampled;
  std::unique_ptr<spdlog::logger> logger;

  explicit Log(const LogOptions& options) : format(options.format), spans(options.spans) {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    logger = std::make_unique<spdlog::logger>("fermata", sink);
    const std::string pattern = format == LogFormat::kText
                                    ? "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v"
                                    : R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";
    logger->set_formatter(
        std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
    logger->set_level(Level(options.level));
  }

  static spdlog::level::level_enum Level(LogLevel level) {
    switch (level) {
      case LogLevel::kDebug:
        return spdlog::level::debug;
      case LogLevel::kInfo:
        return spdlog::level::info;
      case LogLevel::kWarning:
        return spdlog::level::warn;
      case LogLevel::kError:
        return spdlog::level::err;
    }
    return spdlog::level::err;
  }
};

// Never destroyed: threads of libraries may log while the process ends.
Log*& TheLog() {
  static Log* log = new Log(LogOptions());
  return log;
}

// gRPC explains on its own log what it also returns as an error, so it speaks only at debug level.
void LogFromGrpc(gpr_log_func_args* args) {
  LogEvent(LogLevel::kDebug, "grpc",
           {{"severity", gpr_log_severity_string(args->severity)}, {"message", args->message}});
}

}  // namespace

void SetUpLogging(const LogOptions& options) {
  delete std::exchange(TheLog(), new Log(options));
  gpr_set_log_function(LogFromGrpc);
}

bool LogsSpans(bool sampled) {
  const LogSpans spans = TheLog()->spans;
  return spans == LogSpans::kAll || (spans == LogSpans::kSampled && sampled);
}

void LogEvent(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  Log& log = *TheLog();
  if (!log.logger->should_log(Log::Level(level))) return;
  const std::string line = FormatEvent(log.format, event, fields);
  log.logger->log(Log::Level(level), spdlog::string_view_t(line));
}

std::string FormatEvent(LogFormat format, std::string_view event,
                        std::initializer_list<LogField> fields) {
  const bool text = format == LogFormat::kText;
  std::string line;
  const auto append = [&](const LogField& field) {
    const absl::string_view key(field.key.data(), field.key.size());
    if (!line.empty()) line += text ? ' ' : ',';
    if (text) {
      absl::StrAppend(&line, key, "=", Value(format, field));
    } else {
      absl::StrAppend(&line, "\"", key, "\":", Value(format, field));
    }
  };
  append({"event", event});
  for (const LogField& field : fields) {
    const auto* value = std::get_if<std::string_view>(&field.value);
    if (value == nullptr || !value->empty()) append(field);
  }
  return line;
}

}  // namespace fermata
