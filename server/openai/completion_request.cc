#include "server/openai/completion_request.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/sampling/sampler.h"
#include "server/http/json.h"

namespace fermata {
namespace {

using nlohmann::json;

constexpr int64_t kDefaultMaxTokens = 16;

absl::StatusOr<Prompt> ReadPrompt(const json& value, const std::string& path) {
  Prompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
  } else {
    FERMATA_ASSIGN_OR_RETURN(prompt.token_ids, ToTokenIds(value, path));
  }
  return prompt;
}

// A text, a list of token ids, or a list of either.
absl::StatusOr<std::vector<Prompt>> ReadPrompts(const JsonFields& fields) {
  std::vector<Prompt> prompts;
  const json* value = fields.Find("prompt");
  if (value == nullptr) return std::vector<Prompt>(1);
  if (value->is_string() || (value->is_array() && !value->empty() && value->front().is_number())) {
    FERMATA_ASSIGN_OR_RETURN(Prompt prompt, ReadPrompt(*value, "prompt"));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (!value->is_array()) {
    return fields.Error("prompt", "must be a string, a list of token ids, or a list of those");
  }
  if (value->size() > kMaxPrompts) {
    return fields.Error("prompt", "is a list of more than " + std::to_string(kMaxPrompts));
  }
  for (const json& element : *value) {
    const std::string path = ElementPath("prompt", prompts.size());
    FERMATA_ASSIGN_OR_RETURN(Prompt prompt, ReadPrompt(element, path));
    if (prompt.empty()) return InvalidField(path, "must not be empty");
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) prompts.emplace_back();
  return prompts;
}

// Makes ready what an echo needs.
void PrepareEcho(const OpenAiRequest& request, const Tokenizer& tokenizer, OpenAiPrompt& prompt) {
  if (!request.echo) return;
  const Prompt& given = prompt.prompt;
  const bool is_text = !given.text.empty();
  prompt.text = is_text ? given.text : tokenizer.Decode(given.token_ids, true);
  if (!request.scores_prompts()) return;
  prompt.scored = is_text ? tokenizer.Encode(given.text, false) : given.token_ids;
  if (is_text) prompt.start = tokenizer.start_ids();
}

absl::Status ReadOutput(const JsonFields& fields, OpenAiRequest& request) {
  FERMATA_ASSIGN_OR_RETURN(const auto max_tokens, fields.Int("max_tokens", 0, kMaxNewTokens));
  v1::SamplingParams& sampling = *request.turn.mutable_sampling();
  sampling.set_max_new_tokens(static_cast<int32_t>(max_tokens.value_or(kDefaultMaxTokens)));
  FERMATA_ASSIGN_OR_RETURN(const auto logprobs, fields.Int("logprobs", 0, kMaxLogprobs));
  if (logprobs.has_value()) {
    request.logprobs = static_cast<int32_t>(*logprobs);
    sampling.set_logprobs(*request.logprobs);
  }
  FERMATA_ASSIGN_OR_RETURN(const auto echo, fields.Bool("echo"));
  request.echo = echo.value_or(false);
  FERMATA_ASSIGN_OR_RETURN(const auto best_of, fields.Int("best_of", 1, kMaxChoices));
  if (best_of.has_value()) {
    if (*best_of < request.n) return fields.Error("best_of", "must not be less than n");
    request.best_of = static_cast<int>(*best_of);
  }
  FERMATA_ASSIGN_OR_RETURN(const auto suffix, fields.String("suffix"));
  if (suffix.has_value() && !suffix->empty()) {
    return fields.Error("suffix", "is not supported: text is only ever added at the end");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadCompletionRequest(const HttpRequest& http,
                                                    const std::string& served,
                                                    const Tokenizer& tokenizer) {
  FERMATA_ASSIGN_OR_RETURN(const json body, ParseBody(http.body));
  FERMATA_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(body));
  FERMATA_RETURN_IF_ERROR(CheckModel(fields, served));
  OpenAiRequest request;
  FERMATA_RETURN_IF_ERROR(ReadCommonFields(fields, http, request));
  FERMATA_RETURN_IF_ERROR(ReadOutput(fields, request));
  request.names.emplace("sampling.max_new_tokens", "max_tokens");
  request.names.emplace("sampling.logprobs", "logprobs");
  request.names.emplace("token_ids", "prompt");
  request.names.emplace("prompt", "prompt");
  request.names.emplace("input", "prompt");
  FERMATA_ASSIGN_OR_RETURN(std::vector<Prompt> prompts, ReadPrompts(fields));
  for (Prompt& given : prompts) {
    OpenAiPrompt prompt{.prompt = std::move(given)};
    PrepareEcho(request, tokenizer, prompt);
    request.prompts.push_back(std::move(prompt));
  }
  FERMATA_RETURN_IF_ERROR(CheckTogether(request));
  return request;
}

}  // namespace fermata
