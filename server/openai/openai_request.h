#ifndef FERMATA_SERVER_OPENAI_OPENAI_REQUEST_H_
#define FERMATA_SERVER_OPENAI_OPENAI_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/scheduler/prompt.h"
#include "fermata/v1/generation.pb.h"
#include "server/http/message.h"
#include "server/openai/field_names.h"
#include "server/openai/json_fields.h"

namespace fermata {

// Choices of one prompt, at most: n and best_of.
inline constexpr int kMaxChoices = 16;
// Prompts of one request.
inline constexpr size_t kMaxPrompts = 256;

// Log-probabilities of one answer that is not streamed.
inline constexpr size_t kMaxLogprobsKept = 1 << 18;

// A prompt, and how its echo reads.
struct OpenAiPrompt {
  Prompt prompt;
  std::string text;  // Of the echo; empty without one.
  // Where its tokens get log-probabilities: these, after `start`.
  std::vector<int32_t> scored;
  std::vector<int32_t> start;
};

// What a request of either dialect asks for: for each prompt `n` choices, the best of `best_of`.
// Choice i belongs to prompt i / n.
struct OpenAiRequest {
  bool stream = false;
  bool include_usage = false;
  int n = 1;
  int best_of = 1;
  bool echo = false;
  std::optional<int32_t> logprobs;  // How many likely tokens beside each.
  std::string idempotency_key;
  std::string_view lead;  // Taken off the front of every choice's text; a literal.
  // What all turns share: all but the prompt.
  v1::GenerateRequest turn;
  std::vector<OpenAiPrompt> prompts;
  FieldNames names;  // Of the turn's fields in this request.

  const std::string& session() const { return turn.session().id(); }
  // Whether log-probabilities of the prompts are wanted.
  bool scores_prompts() const { return echo && logprobs.has_value(); }
};

// Reads what both dialects share; `headers` hold a session's id and the key of a request that may be
// sent twice. INVALID_ARGUMENT that names the field (or header).
absl::Status ReadCommonFields(const JsonFields& fields, const HttpRequest& headers,
                              OpenAiRequest& request);

// What does not go together, once all fields are read.
absl::Status CheckTogether(const OpenAiRequest& request);

// NOT_FOUND with reason model_not_found unless the field "model" is absent, "default" or `served`.
absl::Status CheckModel(const JsonFields& fields, const std::string& served);

absl::Status ModelNotFound(const std::string& served);

// A tenant's name for what a client calls its user: the same where that is one, else "user-" and 32
// hexadecimal digits.
std::string TenantOf(const std::string& user);

// The seed of candidate `index` of a request with `seed`; the first has that one itself.
uint64_t SeedOf(uint64_t seed, int index);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_OPENAI_REQUEST_H_
