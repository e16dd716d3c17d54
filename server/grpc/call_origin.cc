#include "server/grpc/call_origin.h"

#include <iterator>
#include <optional>
#include <string_view>

namespace fermata {

CallOrigin OriginOf(const grpc::CallbackServerContext& context) {
  std::optional<std::string_view> traceparent;
  const auto [first, last] = context.client_metadata().equal_range("traceparent");
  // Of several it can not be told which one holds.
  if (first != last && std::next(first) == last) {
    traceparent.emplace(first->second.data(), first->second.size());
  }
  return {.front = FrontKind::kGrpc, .trace = TraceContext::FromHeader(traceparent)};
}

}  // namespace fermata
