#include "server/http/router.h"

#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "server/http/http_error.h"

namespace fermata {
namespace {

std::vector<std::string> Segments(std::string_view path) {
  return absl::StrSplit(absl::string_view(path.data(), path.size()), '/');
}

bool IsParameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

// The number of parameters that `pattern` takes from `path`; nullopt where it does not match.
std::optional<int> Match(const std::vector<std::string>& pattern,
                         const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  int parameters = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (IsParameter(pattern[i])) {
      if (path[i].empty()) return std::nullopt;
      ++parameters;
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return parameters;
}

HttpResponse NoSuchMethod(const std::vector<const HttpRoute*>& routes) {
  HttpResponse response = HttpError(405, "METHOD_NOT_ALLOWED", "the path has no such method");
  std::string allow;
  for (const HttpRoute* route : routes) {
    allow += (allow.empty() ? "" : ", ") + route->method;
    if (route->method == "GET") allow += ", HEAD";
  }
  response.headers.emplace_back("Allow", allow);
  return response;
}

}  // namespace

void HttpRouter::Add(HttpRoute route) {
  patterns_.push_back(Segments(route.path));
  routes_.push_back(std::move(route));
}

void HttpRouter::Add(std::string method, std::string path,
                     std::function<HttpResponse(const HttpRequest&)> answer) {
  Add({.method = std::move(method),
       .path = std::move(path),
       .handler = [answer = std::move(answer)](HttpExchange& exchange) {
         return exchange.Reply(answer(exchange.request()));
       }});
}

HttpRouter::Found HttpRouter::Find(HttpRequest& request) const {
  const std::vector<std::string> segments = Segments(request.path);
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  std::vector<const HttpRoute*> matching;  // Of any method.
  std::optional<size_t> found;
  int fewest = 0;
  for (size_t i = 0; i < routes_.size(); ++i) {
    const std::optional<int> parameters = Match(patterns_[i], segments);
    if (!parameters.has_value()) continue;
    matching.push_back(&routes_[i]);
    if (routes_[i].method != method || (found.has_value() && *parameters >= fewest)) continue;
    found = i;
    fewest = *parameters;
  }
  if (matching.empty()) {
    return {.answer = HttpError(404, "PATH_NOT_FOUND", "there is no such path")};
  }
  if (!found.has_value()) return {.answer = NoSuchMethod(matching)};
  const std::vector<std::string>& pattern = patterns_[*found];
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!IsParameter(pattern[i])) continue;
    std::optional<std::string> value = PercentDecode(segments[i]);
    if (!value.has_value()) {
      return {.answer = HttpError(400, "BAD_REQUEST", "the path is not percent-encoded UTF-8")};
    }
    request.parameters[pattern[i].substr(1, pattern[i].size() - 2)] = *std::move(value);
  }
  return {.route = &routes_[*found], .answer = {}};
}

}  // namespace fermata
