#ifndef FERMATA_TESTS_E2E_HTTP_CLIENT_H_
#define FERMATA_TESTS_E2E_HTTP_CLIENT_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace fermata::e2e {

struct HttpReply {
  int status = 0;                              // 0: there was no answer.
  std::map<std::string, std::string> headers;  // By names in small letters; trailers too.
  std::string body;

  // Empty where it did not come.
  std::string Header(const std::string& name_in_small_letters) const;
  // The body, which must be JSON.
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  std::string body;  // JSON, where no header says otherwise.
  std::vector<std::pair<std::string, std::string>> headers;
};

// The bytes of a call as a client sends them, with Host, and Content-Length where a body can be.
std::string Spell(const HttpCall& call);

// One connection to a server on this machine, for well-behaved clients and for others. Throws
// std::runtime_error when it can not connect, and when anything takes more than a minute. Used by one
// thread at a time.
class HttpConnection {
 public:
  explicit HttpConnection(int port);
  ~HttpConnection();
  HttpConnection(HttpConnection&&) noexcept;

  // One call after another on the connection, which the server may have closed: status 0.
  HttpReply Call(const HttpCall& call);

  // Sends bytes as they are; false when the server has closed the connection.
  bool Write(std::string_view bytes);
  // The next answer, whole. `to_head`: it answers HEAD, and has no body.
  HttpReply Read(bool to_head = false);
  // The next answer without its body; then the parts of the body as they come, empty at its end.
  // Whether the end was a proper one, `complete` says then.
  HttpReply ReadHead();
  std::string ReadPart();
  bool complete() const;
  // All bytes until the server closes the connection.
  std::string ReadToEnd();

  // Ends this side alone; and ends both, without the courtesies: the server sees a reset.
  void EndWriting();
  void Reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// On a connection of its own.
HttpReply CallHttp(int port, const HttpCall& call);

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_HTTP_CLIENT_H_
