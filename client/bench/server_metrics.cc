#include "client/bench/server_metrics.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/co_spawn.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "boost/asio/use_future.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"
#include "client/bench/lines.h"

namespace fermata::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kTimeout(5);
constexpr double kInterval = 1;
constexpr std::string_view kScheme = "http://";

struct Url {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat(std::string(text), " is not a URL as of http://127.0.0.1:7412/metrics"));
  if (!text.starts_with(kScheme)) return wrong;
  text.remove_prefix(kScheme.size());
  Url url;
  const size_t slash = std::min(text.find('/'), text.size());
  if (slash < text.size()) url.path = text.substr(slash);
  std::string_view host = text.substr(0, slash);
  const size_t colon = host.rfind(':');
  if (colon != host.npos && !host.ends_with(']')) {
    url.port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  url.host = host;
  int port = 0;
  if (url.host.empty() || !absl::SimpleAtoi(url.port, &port)) return wrong;
  return url;
}

asio::awaitable<std::string> Get(Url url) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  beast::tcp_stream stream(executor);
  stream.expires_after(kTimeout);
  const auto endpoints = co_await resolver.async_resolve(url.host, url.port, asio::use_awaitable);
  co_await stream.async_connect(endpoints, asio::use_awaitable);
  http::request<http::empty_body> request(http::verb::get, url.path, 11);
  request.set(http::field::host, url.host);
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  co_await http::async_read(stream, buffer, response, asio::use_awaitable);
  if (response.result() != http::status::ok) {
    throw std::runtime_error(absl::StrCat("HTTP status ", response.result_int()));
  }
  co_return response.body();
}

}  // namespace

Samples ParseSamples(std::string_view page) {
  Samples samples;
  Lines lines(page);
  while (const auto line = lines.Next()) {
    const size_t space = line->rfind(' ');
    double value = 0;
    if (line->starts_with('#') || space == line->npos ||
        !absl::SimpleAtod(absl::string_view(line->data() + space + 1, line->size() - space - 1),
                          &value)) {
      continue;
    }
    samples[std::string(line->substr(0, space))] = value;
  }
  return samples;
}

absl::StatusOr<std::string> FetchPage(const std::string& url) {
  const absl::StatusOr<Url> parsed = ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  try {
    asio::io_context context;
    std::future<std::string> page = asio::co_spawn(context, Get(*parsed), asio::use_future);
    context.run();
    return page.get();
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(url, ": ", error.what()));
  }
}

std::string DefaultMetricsUrl(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == address.npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return "";
  return absl::StrCat(kScheme.data(), address.substr(0, colon), ":", port + 1, "/metrics");
}

std::string LabelOf(const Samples& samples, const std::string& name, const std::string& label) {
  const auto it = samples.lower_bound(name + "{");
  if (it == samples.end() || !it->first.starts_with(name + "{")) return "";
  const std::string quoted = absl::StrCat(label, "=\"");
  const size_t begin = it->first.find(quoted);
  if (begin == std::string::npos) return "";
  const size_t value = begin + quoted.size();
  return it->first.substr(value, it->first.find('"', value) - value);
}

MetricsWatcher::MetricsWatcher(std::string url, Samples first, const Clock& clock, double warmup)
    : url_(std::move(url)), clock_(clock), warmup_(warmup) {
  watch_.begin = first;
  watch_.end = first;
  watch_.peak = std::move(first);
  thread_ = std::thread([this] { Watch(); });
}

MetricsWatcher::~MetricsWatcher() {
  if (thread_.joinable()) Stop();
}

ServerWatch MetricsWatcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  Look();
  return watch_;
}

void MetricsWatcher::Watch() {
  bool warm = warmup_ <= 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const double next = clock_.Now() + kInterval;
    const double until = warm ? next : std::min(next, warmup_);
    wake_.wait_until(lock, clock_.TimePoint(until), [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    Look();
    lock.lock();
    if (!warm && clock_.Now() >= warmup_) {
      warm = true;
      watch_.begin = watch_.end;
    }
  }
}

void MetricsWatcher::Look() {
  const absl::StatusOr<std::string> page = FetchPage(url_);
  if (!page.ok()) return;
  watch_.end = ParseSamples(*page);
  for (const auto& [name, value] : watch_.end) {
    double& peak = watch_.peak.emplace(name, value).first->second;
    peak = std::max(peak, value);
  }
}

}  // namespace fermata::bench
