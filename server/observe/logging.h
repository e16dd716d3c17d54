#ifndef FERMATA_SERVER_OBSERVE_LOGGING_H_
#define FERMATA_SERVER_OBSERVE_LOGGING_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace fermata {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };
// Which traces leave spans in the log: those whose caller asks for it, each one, or none.
enum class LogSpans { kSampled, kAll, kNone };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  LogSpans spans = LogSpans::kSampled;
};

// Sends the log to standard error, and gRPC's own messages into it. Before it is called, what is
// logged goes there as text. Call once, before other threads log.
void SetUpLogging(const LogOptions& options);

// Whether spans are logged of a trace whose caller has it `sampled`, or not.
bool LogsSpans(bool sampled);

// One key=value of a line. Values are numbers, names and ids; never a user's text or tokens.
// A view that is given must outlive the call it is given to.
struct LogField {
  template <std::integral Number>
  LogField(std::string_view key, Number value) : key(key), value(static_cast<int64_t>(value)) {}
  LogField(std::string_view key, double value) : key(key), value(value) {}
  LogField(std::string_view key, std::string_view value) : key(key), value(value) {}
  LogField(std::string_view key, const std::string& value)
      : key(key), value(std::string_view(value)) {}
  LogField(std::string_view key, const char* value) : key(key), value(std::string_view(value)) {}

  std::string_view key;
  std::variant<int64_t, double, std::string_view> value;
};

// Writes one line: time, level, event and fields. Thread-safe.
void LogEvent(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

// The part of a line from the event on: `event=turn_completed request_id=a tokens=3`, or
// `"event":"turn_completed","request_id":"a","tokens":3`. Text values hold no line breaks and can
// not be mistaken for another field: where a value is more than letters, digits and -_.:/+@ it is
// in quotes and escaped as JSON, in ASCII. Fields with an empty text are left out.
std::string FormatEvent(LogFormat format, std::string_view event,
                        std::initializer_list<LogField> fields);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_LOGGING_H_
