#include "server/http_router.h"

#include "nlohmann/json.hpp"

namespace fermata {

HttpResponse HttpError(int status, std::string_view reason, std::string_view message) {
  const nlohmann::ordered_json error = {{"code", status}, {"reason", reason}, {"message", message}};
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.body = nlohmann::ordered_json{{"error", error}}.dump(
                      -1, ' ', false, nlohmann::json::error_handler_t::replace) +
                  "\n";
  return response;
}

void HttpRouter::Add(std::string method, std::string path, Handler handler) {
  handlers_[std::move(path)][std::move(method)] = std::move(handler);
}

HttpResponse HttpRouter::Answer(const HttpRequest& request) const {
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  const auto methods = handlers_.find(path);
  if (methods == handlers_.end()) return HttpError(404, "NOT_FOUND", "there is no such path");
  const auto handler = methods->second.find(request.method == "HEAD" ? "GET" : request.method);
  if (handler != methods->second.end()) return handler->second(request);
  HttpResponse response = HttpError(405, "METHOD_NOT_ALLOWED", "the path has no such method");
  std::string allow;
  for (const auto& [method, unused] : methods->second) {
    allow += (allow.empty() ? "" : ", ") + method + (method == "GET" ? ", HEAD" : "");
  }
  response.headers.emplace_back("Allow", allow);
  return response;
}

}  // namespace fermata
