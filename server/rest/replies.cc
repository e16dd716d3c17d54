#include "server/rest/replies.h"

#include "absl/strings/str_cat.h"
#include "server/rest/proto_json.h"

namespace fermata {

HttpResponse ToReply(const google::protobuf::Message& message) {
  return JsonResponse(ToJson(message) + "\n");
}

HttpResponse ToSessionReply(const v1::Session& session) {
  HttpResponse reply = ToReply(session);
  reply.headers.emplace_back("ETag", absl::StrCat("\"", session.revision(), "\""));
  return reply;
}

HttpResponse ToNewSessionReply(const v1::Session& session) {
  HttpResponse reply = ToSessionReply(session);
  reply.status = 201;
  // No character of an id has to be escaped.
  reply.headers.emplace_back("Location", absl::StrCat("/v1/sessions/", session.id()));
  return reply;
}

}  // namespace fermata
