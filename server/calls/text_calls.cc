#include "server/calls/text_calls.h"

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "server/calls/convert.h"

namespace fermata {

absl::Status Tokenize(const Front& front, Runtime& runtime, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* reply) {
  const std::vector<int32_t> ids =
      runtime.tokenizer().Encode(request.text(), request.parse_special());
  reply->mutable_token_ids()->Add(ids.begin(), ids.end());
  return CheckReplySize(front, reply->ByteSizeLong());
}

absl::Status Detokenize(const Front& front, Runtime& runtime, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* reply) {
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  const int64_t vocab_size = runtime.model().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return InvalidField("token_ids[" + std::to_string(i) + "]",
                          std::to_string(ids[i]) + " is not in the vocabulary of " +
                              std::to_string(vocab_size) + " tokens");
    }
  }
  reply->set_text(runtime.tokenizer().Decode(ids, request.keep_special()));
  return CheckReplySize(front, reply->ByteSizeLong());
}

absl::Status GetModel(const Front&, Runtime& runtime, const v1::GetModelRequest&,
                      v1::Model* reply) {
  FillModel(runtime.model(), runtime.tokenizer().kind(), reply);
  return absl::OkStatus();
}

}  // namespace fermata
