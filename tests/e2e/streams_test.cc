// A crowd of HTTP clients: hundreds of streams that run, thousands that wait in the queue, and
// thousands of connections that rest, all at once. Each stream says what the same request says alone.
//
// Prints what a resting connection and a waiting stream cost in memory, and how evenly tokens come.
// FERMATA_STREAMS_ACTIVE and FERMATA_STREAMS_IDLE say how many.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <sys/resource.h>

#include "gtest/gtest.h"
#include "tests/e2e/http_client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"
#include "tests/settings.h"

namespace fermata::e2e {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr int kStories = 10;  // That active streams tell, so that not each need be told alone.
constexpr int kActiveTokens = 400;
constexpr char kMemory[] = "process_resident_memory_bytes";

// A streamed completion, as its client sees it.
struct Stream {
  std::string request;
  std::string events;                    // All that came.
  std::vector<Clock::time_point> times;  // Of the parts in which it came.
  bool whole = false;
  std::atomic<bool> begun = false;  // Something came.
};

// Connections of one thread, each a coroutine.
class Clients {
 public:
  explicit Clients(int port)
      : server_(asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)) {}
  ~Clients() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void Start() {
    thread_ = std::thread([this] { context_.run(); });
  }
  void Follow(Stream* stream) {
    asio::co_spawn(context_, Read(server_, stream, &ended_), asio::detached);
  }
  void Rest() { asio::co_spawn(context_, Rest(server_, &resting_), asio::detached); }

  int ended() const { return ended_; }
  int resting() const { return resting_; }

 private:
  static auto Into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

  static asio::awaitable<void> Read(tcp::endpoint server, Stream* stream, std::atomic<int>* ended) {
    tcp::socket socket(co_await asio::this_coro::executor);
    error_code error;
    co_await socket.async_connect(server, Into(error));
    co_await asio::async_write(socket, asio::buffer(stream->request), Into(error));
    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    co_await http::async_read_header(socket, buffer, parser, Into(error));
    while (!error && !parser.is_done()) {
      co_await http::async_read_some(socket, buffer, parser, Into(error));
      if (parser.get().body().empty()) continue;
      stream->events += parser.get().body();
      parser.get().body().clear();
      stream->times.push_back(Clock::now());
      stream->begun = true;
    }
    stream->whole = parser.is_done();
    ++*ended;
  }

  // Asks once, then keeps the connection until the server ends it.
  static asio::awaitable<void> Rest(tcp::endpoint server, std::atomic<int>* resting) {
    tcp::socket socket(co_await asio::this_coro::executor);
    error_code error;
    co_await socket.async_connect(server, Into(error));
    const std::string request = Spell({.target = "/healthz"});
    co_await asio::async_write(socket, asio::buffer(request), Into(error));
    char answer[1024];
    co_await socket.async_read_some(asio::buffer(answer), Into(error));
    if (!error) ++*resting;
    co_await socket.async_read_some(asio::buffer(answer), Into(error));
    --*resting;
  }

  const tcp::endpoint server_;
  std::atomic<int> ended_ = 0;
  std::atomic<int> resting_ = 0;
  asio::io_context context_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::thread thread_;
};

std::string Prompt(int i) { return "Once upon a time, there were " + std::to_string(i) + " cats"; }

std::string StreamRequest(const std::string& prompt, int tokens) {
  const nlohmann::json body = {{"prompt", prompt},
                               {"max_tokens", tokens},
                               {"temperature", 0},
                               {"ignore_eos", true},
                               {"stream", true}};
  return Spell({.method = "POST", .target = "/v1/completions", .body = body.dump()});
}

// The text of a stream's events, and whether it came to its proper end. Counts its comments.
struct Told {
  std::string text;
  bool done = false;
  int comments = 0;
};
Told ReadEvents(const std::string& events) {
  Told told;
  for (size_t at = 0, end; (end = events.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string event = events.substr(at, end - at);
    if (event.starts_with(":")) {
      ++told.comments;
    } else if (event == "data: [DONE]") {
      told.done = true;
    } else {
      const auto json = nlohmann::json::parse(event.substr(std::string("data: ").size()));
      for (const auto& choice : json.at("choices")) told.text += choice.at("text");
    }
  }
  return told;
}

// Milliseconds between the parts of all streams that came between two moments: at a fraction of them
// in their order.
double Gap(const std::vector<std::unique_ptr<Stream>>& streams, Clock::time_point begin,
           Clock::time_point end, double fraction) {
  std::vector<double> gaps;
  for (const auto& stream : streams) {
    for (size_t i = 1; i < stream->times.size(); ++i) {
      if (stream->times[i - 1] < begin || stream->times[i] > end) continue;
      gaps.push_back(
          std::chrono::duration<double, std::milli>(stream->times[i] - stream->times[i - 1])
              .count());
    }
  }
  if (gaps.empty()) return 0;
  std::ranges::sort(gaps);
  return gaps[static_cast<size_t>(fraction * static_cast<double>(gaps.size() - 1))];
}

// As many files as this process may have: for both ends, as the server inherits the limit.
void RaiseFileLimit() {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

bool AllBegun(const std::vector<std::unique_ptr<Stream>>& streams) {
  return std::ranges::all_of(streams, [](const auto& stream) { return stream->begun.load(); });
}

std::vector<std::unique_ptr<Stream>> MakeStreams(int count, int prompts, int tokens) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < count; ++i) {
    streams.push_back(std::make_unique<Stream>());
    streams.back()->request = StreamRequest(Prompt(i % prompts), tokens);
  }
  return streams;
}

TEST(StreamsTest, ThousandsWaitAndRestWhileHundredsRun) {
  const auto count =
      static_cast<int>(Setting("FERMATA_STREAMS_ACTIVE", UnderSanitizer() ? 20 : 200));
  const auto idle_count =
      static_cast<int>(Setting("FERMATA_STREAMS_IDLE", UnderSanitizer() ? 100 : 2000));
  RaiseFileLimit();
  const ServerProcess server(
      {"--max_running=" + std::to_string(count), "--max_queued=" + std::to_string(idle_count),
       "--http_max_connections=1000000", "--compute_threads=2", "--stream_ping_interval=1s"});
  std::vector<std::string> alone;
  const auto grpc = server.Connect();
  for (int i = 0; i < kStories; ++i) {
    alone.push_back(RunOk(*grpc, Greedy(Prompt(i), kActiveTokens)).text);
  }
  const auto active = MakeStreams(count, kStories, kActiveTokens);
  const auto idle = MakeStreams(idle_count, kStories, 1);
  Clients clients(server.http_port());
  clients.Start();

  const double nothing = server.Metric(kMemory);
  for (int i = 0; i < idle_count; ++i) clients.Rest();
  ASSERT_TRUE(Eventually([&] { return clients.resting() == idle_count; })) << clients.resting();
  const double resting = server.Metric(kMemory);
  for (const auto& stream : active) clients.Follow(stream.get());
  ASSERT_TRUE(Eventually([&] { return AllBegun(active); }));
  const Clock::time_point began = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double running = server.Metric(kMemory);
  const Clock::time_point asked = Clock::now();
  for (const auto& stream : idle) clients.Follow(stream.get());
  ASSERT_TRUE(server.MetricBecomes(kQueued, idle_count));
  const double waiting = server.Metric(kMemory);
  const Clock::time_point all_wait = Clock::now();
  EXPECT_EQ(server.Metric(kRunning), count);
  EXPECT_EQ(clients.ended(), 0);
  ASSERT_TRUE(Eventually([&] { return clients.ended() == count + idle_count; }))
      << clients.ended() << " ended";
  EXPECT_EQ(clients.resting(), idle_count);
  EXPECT_EQ(server.Metric(kQueued), 0);

  Clock::time_point first_end = Clock::time_point::max();
  for (const auto& stream : active) first_end = std::min(first_end, stream->times.back());
  for (size_t i = 0; i < active.size(); ++i) {
    EXPECT_TRUE(active[i]->whole);
    const Told told = ReadEvents(active[i]->events);
    EXPECT_TRUE(told.done);
    EXPECT_EQ(told.text, alone[i % kStories]);
  }
  int comments = 0;
  for (size_t i = 0; i < idle.size(); ++i) {
    EXPECT_TRUE(idle[i]->whole);
    const Told told = ReadEvents(idle[i]->events);
    EXPECT_TRUE(told.done);
    EXPECT_TRUE(alone[i % kStories].starts_with(told.text)) << told.text;
    comments += told.comments;
  }
  EXPECT_GE(comments, idle_count);  // They waited for longer than a sign of life takes to come.
  const auto per = [](double bytes, int count) { return bytes / 1024 / count; };
  std::printf(
      "%d resting connections: %.1f KiB each\n%d active streams: %.1f KiB each\n"
      "%d waiting streams: %.1f KiB each, %d comments\n",
      idle_count, per(resting - nothing, idle_count), count, per(running - resting, count),
      idle_count, per(waiting - running, idle_count), comments);
  std::printf(
      "between tokens, ms: p50 %.1f, p99 %.1f before; p50 %.1f, p99 %.1f while they come; "
      "p50 %.1f, p99 %.1f while they wait\n",
      Gap(active, began, asked, .5), Gap(active, began, asked, .99),
      Gap(active, asked, all_wait, .5), Gap(active, asked, all_wait, .99),
      Gap(active, all_wait, first_end, .5), Gap(active, all_wait, first_end, .99));
}

}  // namespace
}  // namespace fermata::e2e
