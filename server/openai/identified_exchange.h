#ifndef FERMATA_SERVER_OPENAI_IDENTIFIED_EXCHANGE_H_
#define FERMATA_SERVER_OPENAI_IDENTIFIED_EXCHANGE_H_

#include <functional>
#include <string>

#include "server/http/exchange.h"

namespace fermata {

// An exchange whose answer, whatever it is, carries X-Request-Id: the client's own, where that is up to
// 128 printable ASCII characters, else one that is made here.
class IdentifiedExchange final : public HttpExchange {
 public:
  // `exchange` must outlive it.
  explicit IdentifiedExchange(HttpExchange& exchange);

  const std::string& id() const { return id_; }

  const HttpRequest& request() const override { return exchange_.request(); }
  boost::asio::any_io_executor executor() const override { return exchange_.executor(); }
  Awaitable<absl::StatusOr<std::string>> ReadBody() override { return exchange_.ReadBody(); }
  Awaitable<void> Reply(HttpResponse response) override;
  Awaitable<bool> BeginStream(HttpResponse head) override;
  Awaitable<bool> Write(std::string part) override { return exchange_.Write(std::move(part)); }
  Awaitable<bool> EndStream() override { return exchange_.EndStream(); }
  void OnGone(std::function<void()> gone) override { exchange_.OnGone(std::move(gone)); }

 private:
  HttpExchange& exchange_;
  const std::string id_;
};

// `prefix`, and 32 random hexadecimal digits.
std::string RandomId(const char* prefix);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_IDENTIFIED_EXCHANGE_H_
