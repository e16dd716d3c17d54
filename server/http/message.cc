#include "server/http/message.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "engine/base/utf8.h"

namespace fermata {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string_view> HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, absl::string_view(name.data(), name.size()))) return value;
  }
  return std::nullopt;
}

HttpResponse JsonResponse(std::string json) {
  return {.content_type = "application/json", .body = std::move(json), .headers = {}};
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (!IsUtf8(decoded)) return std::nullopt;
  return decoded;
}

std::optional<HttpTarget> ParseTarget(std::string_view target) {
  const size_t query = target.find('?');
  HttpTarget parsed{.path = std::string(target.substr(0, query)), .query = {}};
  if (query == std::string_view::npos) return parsed;
  std::string text(target.substr(query + 1));
  for (char& c : text) {
    if (c == '+') c = ' ';
  }
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::optional<std::string> name = PercentDecode(pair.first);
    std::optional<std::string> value = PercentDecode(pair.second);
    if (!name.has_value() || !value.has_value()) return std::nullopt;
    parsed.query[*name] = *std::move(value);
  }
  return parsed;
}

}  // namespace fermata
