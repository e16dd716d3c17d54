#ifndef FERMATA_SERVER_REST_REPLIES_H_
#define FERMATA_SERVER_REST_REPLIES_H_

#include "fermata/v1/session.pb.h"
#include "google/protobuf/message.h"
#include "server/http/message.h"

namespace fermata {

// 200 with the message as JSON.
HttpResponse ToReply(const google::protobuf::Message& message);
// The same with the session's revision as ETag.
HttpResponse ToSessionReply(const v1::Session& session);
// 201, and where the session is, too.
HttpResponse ToNewSessionReply(const v1::Session& session);

}  // namespace fermata

#endif  // FERMATA_SERVER_REST_REPLIES_H_
