#ifndef FERMATA_SERVER_HTTP_MESSAGE_H_
#define FERMATA_SERVER_HTTP_MESSAGE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // In capitals, for example "GET".
  std::string target;  // Path and query, as it came.
  std::string path;    // Of the target, still encoded.
  HttpHeaders headers;
  std::string body;                               // Empty where the route reads it in parts.
  std::map<std::string, std::string> parameters;  // Of the route's path, decoded: {"id", "fox"}.
  std::map<std::string, std::string> query;       // Decoded; the last of those of one name.

  // The value of a header, whatever the case of its name; nullopt where it did not come. The first of
  // several.
  std::optional<std::string_view> Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  HttpHeaders headers;  // Beside type and length.
};

// 200 with a body of JSON.
HttpResponse JsonResponse(std::string json);

// Splits `target` into its path, still encoded, and the decoded parameters of its query. Nullopt where
// an escape is not two hexadecimal digits, or what it spells is not UTF-8.
struct HttpTarget {
  std::string path;
  std::map<std::string, std::string> query;
};
std::optional<HttpTarget> ParseTarget(std::string_view target);

// What percent-escapes spell. Nullopt as above.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_MESSAGE_H_
