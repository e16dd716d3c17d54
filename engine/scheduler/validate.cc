#include "engine/scheduler/validate.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/sampling/sampler.h"

namespace fermata {
namespace {

absl::Status ValidateTokens(const std::vector<int32_t>& tokens, int64_t vocab_size,
                            std::string_view field) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return InvalidField(
        absl::StrCat(absl::string_view(field.data(), field.size()), "[", i, "]"),
        absl::StrCat(tokens[i], " is outside the vocabulary [0, ", vocab_size, ")"));
  }
  return absl::OkStatus();
}

absl::Status ValidateClaim(const Claim& claim) {
  if (claim.priority < kMinPriority || claim.priority > kMaxPriority) {
    return InvalidField("priority", absl::StrCat(claim.priority, " is outside [", kMinPriority,
                                                 ", ", kMaxPriority, "]"));
  }
  if (claim.tenant.size() > kMaxTenantBytes) {
    return InvalidField("tenant", absl::StrCat("is longer than ", kMaxTenantBytes, " characters"));
  }
  const bool printable =
      std::ranges::all_of(claim.tenant, [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (!printable) return InvalidField("tenant", "holds other than printable ASCII characters");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTurn(const TurnRequest& request, const ModelInfo& model) {
  FERMATA_RETURN_IF_ERROR(ValidateClaim(request.claim));
  FERMATA_RETURN_IF_ERROR(ValidateSampling(request.sampling, model.vocab_size));
  FERMATA_RETURN_IF_ERROR(ValidateTokens(request.prompt.token_ids, model.vocab_size, "token_ids"));
  if (request.session.has_value() && !model.fixed_size_state) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "this model has softmax attention layers whose state grows with the position, "
                     "so its sequences can not be kept as sessions",
                     {.reason = "UNBOUNDED_STATE"});
  }
  if (!request.session.has_value() && request.prompt.text.empty() &&
      request.prompt.token_ids.empty()) {
    return InvalidField("prompt", "without a session there must be a prompt");
  }
  return absl::OkStatus();
}

absl::Status ValidateScore(const ScoreRequest& request, const ModelInfo& model) {
  FERMATA_RETURN_IF_ERROR(ValidateClaim(request.claim));
  FERMATA_RETURN_IF_ERROR(
      ValidateTokens(request.context.token_ids, model.vocab_size, "context_token_ids"));
  FERMATA_RETURN_IF_ERROR(ValidateTokens(request.input.token_ids, model.vocab_size, "token_ids"));
  if (request.top_logprobs < 0 || request.top_logprobs > kMaxLogprobs) {
    return InvalidField("top_logprobs",
                        absl::StrCat(request.top_logprobs, " is outside [0, ", kMaxLogprobs, "]"));
  }
  return absl::OkStatus();
}

}  // namespace fermata
