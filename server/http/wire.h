#ifndef FERMATA_SERVER_HTTP_WIRE_H_
#define FERMATA_SERVER_HTTP_WIRE_H_

#include <optional>
#include <string>
#include <string_view>

#include "boost/beast/http/empty_body.hpp"
#include "boost/beast/http/error.hpp"
#include "boost/beast/http/message.hpp"
#include "boost/beast/http/parser.hpp"
#include "server/config/flags.h"
#include "server/http/message.h"

// Between Beast's messages and ours, without a socket.

namespace fermata {

using HttpHeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

// What to answer when a request can not be read; nullopt when the peer is just gone, or too slow.
std::optional<HttpResponse> ReadError(const boost::system::error_code& error);

// The request that a header begins. The answer instead for one that this server does not take: a target
// that can not be read, HTTP/1.1 without Host, or a change asked for by a page of another origin that
// is not among the allowed ones.
std::optional<HttpResponse> ToRequest(const HttpHeaderParser& parser, const HttpOptions& options,
                                      HttpRequest* request);

// The answer to a question of a browser whether a page of another origin may ask; nullopt when
// `request` is none.
std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request, const HttpOptions& options);

// The header of `response`, with what every answer carries, and what lets a page of an allowed origin
// read it. Without length and encoding of the body.
boost::beast::http::response<boost::beast::http::empty_body> ToHeader(const HttpResponse& response,
                                                                      const HttpRequest& request,
                                                                      const HttpOptions& options,
                                                                      unsigned version,
                                                                      bool keep_alive);

}  // namespace fermata

#endif  // FERMATA_SERVER_HTTP_WIRE_H_
