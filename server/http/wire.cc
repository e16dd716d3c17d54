#include "server/http/wire.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/http/http_error.h"

namespace fermata {
namespace {

namespace http = boost::beast::http;

// "http://host/path" as proxies send it, without the host.
std::string_view WithoutAuthority(std::string_view target) {
  if (!target.starts_with("http://") && !target.starts_with("https://")) return target;
  const size_t path = target.find('/', target.find("//") + 2);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

bool IsAllowed(std::string_view origin, const HttpOptions& options) {
  return std::ranges::any_of(options.allowed_origins, [origin](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

// Whether a page at `origin` came from this server.
bool IsOwn(std::string_view origin, const HttpRequest& request) {
  const size_t host = origin.find("//");
  return host != std::string_view::npos && request.Header("Host") == origin.substr(host + 2);
}

bool Changes(const std::string& method) {
  return method != "GET" && method != "HEAD" && method != "OPTIONS";
}

HttpResponse OriginRefused() {
  return HttpError(403, "ORIGIN_NOT_ALLOWED",
                   "pages of this origin may not ask here: see --http_allowed_origins");
}

}  // namespace

std::optional<HttpResponse> ReadError(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return HttpError(431, "HEADER_TOO_LARGE", "the header is larger than the limit");
  }
  if (error == http::error::body_limit) {
    return HttpError(413, "BODY_TOO_LARGE", "the body is larger than the limit");
  }
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return HttpError(400, "BAD_REQUEST", "this is not an HTTP request: " + error.message());
  }
  return std::nullopt;
}

std::optional<HttpResponse> ToRequest(const HttpHeaderParser& parser, const HttpOptions& options,
                                      HttpRequest* request) {
  const auto& header = parser.get();
  request->method = std::string(header.method_string());
  request->target = std::string(WithoutAuthority({header.target().data(), header.target().size()}));
  for (const auto& field : header) {
    request->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  if (header.version() >= 11 && !request->Header("Host").has_value()) {
    return HttpError(400, "BAD_REQUEST", "the header Host is missing");
  }
  if (header.count(http::field::host) > 1) {
    return HttpError(400, "BAD_REQUEST", "the header Host came twice");
  }
  if (request->Header("Transfer-Encoding").has_value() && !parser.chunked()) {
    return HttpError(501, "NOT_IMPLEMENTED", "bodies come plain or chunked");
  }
  std::optional<HttpTarget> target = ParseTarget(request->target);
  if (!target.has_value()) {
    return HttpError(400, "BAD_REQUEST", "the target is not percent-encoded UTF-8");
  }
  request->path = std::move(target->path);
  request->query = std::move(target->query);
  const std::optional<std::string_view> origin = request->Header("Origin");
  if (origin.has_value() && Changes(request->method) && !IsOwn(*origin, *request) &&
      !IsAllowed(*origin, options)) {
    return OriginRefused();
  }
  return std::nullopt;
}

std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request,
                                            const HttpOptions& options) {
  const std::optional<std::string_view> origin = request.Header("Origin");
  if (request.method != "OPTIONS" || !origin.has_value() ||
      !request.Header("Access-Control-Request-Method").has_value()) {
    return std::nullopt;
  }
  if (!IsAllowed(*origin, options)) return OriginRefused();
  HttpResponse response{.status = 204, .headers = {}};
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE");
  if (const auto headers = request.Header("Access-Control-Request-Headers"); headers.has_value()) {
    response.headers.emplace_back("Access-Control-Allow-Headers", std::string(*headers));
  }
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

http::response<http::empty_body> ToHeader(const HttpResponse& response, const HttpRequest& request,
                                          const HttpOptions& options, unsigned version,
                                          bool keep_alive) {
  http::response<http::empty_body> header(static_cast<http::status>(response.status), version);
  header.set(http::field::server, "fermata");
  header.set(http::field::date,
             absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()));
  if (response.status != 204 && response.status != 304) {
    header.set(http::field::content_type, response.content_type);
  }
  for (const auto& [name, value] : response.headers) header.set(name, value);
  const std::optional<std::string_view> origin = request.Header("Origin");
  if (origin.has_value() && IsAllowed(*origin, options)) {
    header.set(http::field::access_control_allow_origin, std::string(*origin));
    header.set(http::field::access_control_expose_headers,
               "ETag, Retry-After, Retry-After-Ms, X-Request-Id, X-Session-Id, X-Should-Retry");
    header.insert(http::field::vary, "Origin");
  }
  header.keep_alive(keep_alive);
  return header;
}

}  // namespace fermata
