#include "server/openai/identified_exchange.h"

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

namespace fermata {
namespace {

constexpr size_t kMaxIdBytes = 128;

std::string IdOf(const HttpRequest& request) {
  const auto given = request.Header("x-request-id");
  const auto printable = [](char c) { return c > 0x20 && c <= 0x7E; };
  if (given.has_value() && !given->empty() && given->size() <= kMaxIdBytes &&
      std::ranges::all_of(*given, printable)) {
    return std::string(*given);
  }
  return RandomId("req_");
}

}  // namespace

IdentifiedExchange::IdentifiedExchange(HttpExchange& exchange)
    : exchange_(exchange), id_(IdOf(exchange.request())) {}

Awaitable<void> IdentifiedExchange::Reply(HttpResponse response) {
  response.headers.emplace_back("X-Request-Id", id_);
  return exchange_.Reply(std::move(response));
}

Awaitable<bool> IdentifiedExchange::BeginStream(HttpResponse head) {
  head.headers.emplace_back("X-Request-Id", id_);
  return exchange_.BeginStream(std::move(head));
}

std::string RandomId(const char* prefix) {
  std::random_device random;
  std::string id = prefix;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&id, "%08x", random());
  return id;
}

}  // namespace fermata
