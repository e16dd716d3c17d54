#ifndef FERMATA_SERVER_HTTP_ROUTER_H_
#define FERMATA_SERVER_HTTP_ROUTER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

struct HttpRequest {
  std::string method;  // In capitals, for example "GET".
  std::string target;  // Path and query, as it came.
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // Beside type and length.
};

// {"error": {"code": 404, "reason": "NOT_FOUND", "message": "…"}}
HttpResponse HttpError(int status, std::string_view reason, std::string_view message);

// Finds who answers a request. Filled before use, and thread-safe then as far as the handlers are.
class HttpRouter {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // `path` is matched whole, without the query. GET answers HEAD as well.
  void Add(std::string method, std::string path, Handler handler);

  // What the handler says; 404 for an unknown path, 405 with Allow for another method on a known
  // one. The body of an answer to HEAD is there, for its length: the server does not send it.
  HttpResponse Answer(const HttpRequest& request) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> handlers_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_ROUTER_H_
