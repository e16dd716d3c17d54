#ifndef FERMATA_SERVER_GRPC_GRPC_STATUS_H_
#define FERMATA_SERVER_GRPC_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace fermata {

// `status` as gRPC sends it: the same code and message, and in the details a google.rpc.Status with
// ErrorInfo {reason, domain "fermata", metadata} and, where the same request may succeed later,
// RetryInfo. Texts are cut where they would outgrow what clients accept as trailers, and are valid
// UTF-8 whatever they quote.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace fermata

#endif  // FERMATA_SERVER_GRPC_GRPC_STATUS_H_
