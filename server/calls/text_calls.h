#ifndef FERMATA_SERVER_CALLS_TEXT_CALLS_H_
#define FERMATA_SERVER_CALLS_TEXT_CALLS_H_

#include "absl/status/status.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/models.pb.h"
#include "server/calls/front.h"
#include "server/calls/runtime.h"

namespace fermata {

// Calls that need no session and no turn. They fill the reply, which is empty before. Thread-safe.

// These can take long: for threads of front.helper.
absl::Status Tokenize(const Front& front, Runtime& runtime, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* reply);
absl::Status Detokenize(const Front& front, Runtime& runtime, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* reply);

absl::Status GetModel(const Front& front, Runtime& runtime, const v1::GetModelRequest& request,
                      v1::Model* reply);

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_TEXT_CALLS_H_
