#include "server/openai/openai_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/requests.h"
#include "xxhash.h"

namespace fermata {
namespace {

constexpr double kMostTemperature = 2;
constexpr double kMostPenalty = 2;
constexpr double kMostBias = 100;
constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();

absl::Status ReadChoosing(const JsonFields& fields, v1::SamplingParams& sampling) {
  FERMATA_ASSIGN_OR_RETURN(const auto temperature,
                           fields.Number("temperature", 0, kMostTemperature));
  if (temperature.has_value()) sampling.set_temperature(static_cast<float>(*temperature));
  FERMATA_ASSIGN_OR_RETURN(const auto top_p, fields.Number("top_p", 0, 1));
  if (top_p.has_value()) sampling.set_top_p(static_cast<float>(*top_p));
  FERMATA_ASSIGN_OR_RETURN(const auto top_k, fields.Int("top_k", 0, kMostInt32));
  if (top_k.has_value()) sampling.set_top_k(static_cast<int32_t>(*top_k));
  FERMATA_ASSIGN_OR_RETURN(const auto min_p, fields.Number("min_p", 0, 1));
  if (min_p.has_value()) sampling.set_min_p(static_cast<float>(*min_p));
  return absl::OkStatus();
}

absl::Status ReadPenalties(const JsonFields& fields, v1::SamplingParams& sampling) {
  FERMATA_ASSIGN_OR_RETURN(const auto presence,
                           fields.Number("presence_penalty", -kMostPenalty, kMostPenalty));
  if (presence.has_value()) sampling.set_presence_penalty(static_cast<float>(*presence));
  FERMATA_ASSIGN_OR_RETURN(const auto frequency,
                           fields.Number("frequency_penalty", -kMostPenalty, kMostPenalty));
  if (frequency.has_value()) sampling.set_frequency_penalty(static_cast<float>(*frequency));
  FERMATA_ASSIGN_OR_RETURN(const auto repetition,
                           fields.Number("repetition_penalty", 0.01, kMostBias));
  if (repetition.has_value()) sampling.set_repetition_penalty(static_cast<float>(*repetition));
  return absl::OkStatus();
}

// {"50256": -100}
absl::Status ReadBias(const JsonFields& fields, v1::SamplingParams& sampling) {
  FERMATA_ASSIGN_OR_RETURN(const auto bias, fields.Object("logit_bias"));
  if (!bias.has_value()) return absl::OkStatus();
  for (const auto& [key, value] : fields.Find("logit_bias")->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return fields.Error("logit_bias", "has a key that is no token id");
    }
    const double number = value.is_number() ? value.get<double>() : kMostBias + 1;
    if (!(number >= -kMostBias && number <= kMostBias)) {
      return fields.Error("logit_bias", absl::StrCat("of token ", id, " must be a number in [",
                                                     -kMostBias, ", ", kMostBias, "]"));
    }
    (*sampling.mutable_logit_bias())[id] = static_cast<float>(number);
  }
  return absl::OkStatus();
}

absl::Status ReadSeed(const JsonFields& fields, v1::SamplingParams& sampling) {
  const nlohmann::json* seed = fields.Find("seed");
  if (seed == nullptr) return absl::OkStatus();
  if (!seed->is_number_integer()) return fields.Error("seed", "must be an integer");
  sampling.set_seed(seed->is_number_unsigned() ? seed->get<uint64_t>()
                                               : static_cast<uint64_t>(seed->get<int64_t>()));
  return absl::OkStatus();
}

absl::Status ReadStops(const JsonFields& fields, v1::SamplingParams& sampling) {
  FERMATA_ASSIGN_OR_RETURN(const auto stops, fields.Strings("stop"));
  for (const std::string& stop : stops) sampling.add_stop(stop);
  FERMATA_ASSIGN_OR_RETURN(const auto ids, fields.TokenIds("stop_token_ids"));
  sampling.mutable_stop_token_ids()->Add(ids.begin(), ids.end());
  FERMATA_ASSIGN_OR_RETURN(const auto ignore_eos, fields.Bool("ignore_eos"));
  if (ignore_eos.has_value()) sampling.set_ignore_eos(*ignore_eos);
  FERMATA_ASSIGN_OR_RETURN(const auto min_tokens, fields.Int("min_tokens", 0, kMaxNewTokens));
  if (min_tokens.has_value()) sampling.set_min_new_tokens(static_cast<int32_t>(*min_tokens));
  return absl::OkStatus();
}

absl::Status ReadSession(const JsonFields& fields, const HttpRequest& headers,
                         v1::GenerateRequest& turn) {
  FERMATA_ASSIGN_OR_RETURN(std::optional<std::string> id, fields.String("session"));
  if (const auto header = headers.Header("x-session-id"); header.has_value()) {
    if (id.has_value() && *id != *header) {
      return fields.Error("session", "is another one than the header X-Session-Id says");
    }
    id = std::string(*header);
  }
  FERMATA_ASSIGN_OR_RETURN(const auto durability, fields.String("durability"));
  FERMATA_ASSIGN_OR_RETURN(const auto position,
                           fields.Int("expected_position", 0, std::numeric_limits<int64_t>::max()));
  if (!id.has_value()) {
    for (const char* name : {"durability", "expected_position"}) {
      if (fields.Find(name) != nullptr) return fields.Error(name, "is for requests with a session");
    }
    return absl::OkStatus();
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(*id, "session"));  // It becomes a header.
  turn.mutable_session()->set_id(*std::move(id));
  turn.mutable_session()->set_create_if_missing(true);
  if (position.has_value()) turn.mutable_session()->set_expected_position(*position);
  if (!durability.has_value()) return absl::OkStatus();
  if (*durability != "memory" && *durability != "disk") {
    return fields.Error("durability", "must be \"memory\" or \"disk\"");
  }
  turn.mutable_session()->set_durability(*durability == "disk" ? v1::DISK : v1::MEMORY);
  return absl::OkStatus();
}

absl::Status ReadService(const JsonFields& fields, const HttpRequest& headers,
                         OpenAiRequest& request) {
  v1::GenerateRequest& turn = request.turn;
  FERMATA_ASSIGN_OR_RETURN(const auto user, fields.String("user"));
  if (user.has_value()) turn.set_tenant(TenantOf(*user));
  FERMATA_ASSIGN_OR_RETURN(const auto priority, fields.Int("priority", kMinPriority, kMaxPriority));
  if (priority.has_value()) turn.set_priority(static_cast<int32_t>(*priority));
  if (const auto key = headers.Header("idempotency-key"); key.has_value() && !key->empty()) {
    request.idempotency_key = std::string(*key);
    turn.set_request_id(request.idempotency_key);
  }
  FERMATA_ASSIGN_OR_RETURN(const auto on_disconnect, fields.String("on_disconnect"));
  if (on_disconnect.has_value()) {
    if (*on_disconnect != "cancel" && *on_disconnect != "finish") {
      return fields.Error("on_disconnect", "must be \"cancel\" or \"finish\"");
    }
    const bool finish = *on_disconnect == "finish";
    if (finish && request.idempotency_key.empty()) {
      return fields.Error("on_disconnect",
                          "finish needs the header Idempotency-Key, to find the answer by");
    }
    turn.set_on_disconnect(finish ? v1::ON_DISCONNECT_FINISH : v1::ON_DISCONNECT_CANCEL);
  }
  return ReadSession(fields, headers, turn);
}

absl::Status ReadStreaming(const JsonFields& fields, OpenAiRequest& request) {
  FERMATA_ASSIGN_OR_RETURN(const auto stream, fields.Bool("stream"));
  request.stream = stream.value_or(false);
  FERMATA_ASSIGN_OR_RETURN(const auto options, fields.Object("stream_options"));
  if (!options.has_value()) return absl::OkStatus();
  if (!request.stream) return fields.Error("stream_options", "is for streams");
  FERMATA_ASSIGN_OR_RETURN(const auto usage, options->Bool("include_usage"));
  request.include_usage = usage.value_or(false);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadCommonFields(const JsonFields& fields, const HttpRequest& headers,
                              OpenAiRequest& request) {
  v1::SamplingParams& sampling = *request.turn.mutable_sampling();
  request.names = CommonFieldNames();
  FERMATA_RETURN_IF_ERROR(ReadStreaming(fields, request));
  FERMATA_RETURN_IF_ERROR(ReadChoosing(fields, sampling));
  FERMATA_RETURN_IF_ERROR(ReadPenalties(fields, sampling));
  FERMATA_RETURN_IF_ERROR(ReadBias(fields, sampling));
  FERMATA_RETURN_IF_ERROR(ReadSeed(fields, sampling));
  FERMATA_RETURN_IF_ERROR(ReadStops(fields, sampling));
  FERMATA_ASSIGN_OR_RETURN(const auto n, fields.Int("n", 1, kMaxChoices));
  request.n = static_cast<int>(n.value_or(1));
  request.best_of = request.n;
  return ReadService(fields, headers, request);
}

absl::Status CheckTogether(const OpenAiRequest& request) {
  const bool several = request.best_of > 1 || request.prompts.size() > 1;
  if (!request.session().empty()) {
    if (request.n > 1) return InvalidField("n", "must be 1 with a session");
    if (request.best_of > 1) return InvalidField("best_of", "must be 1 with a session");
    if (request.prompts.size() > 1) {
      return InvalidField("prompt", "must be one prompt with a session");
    }
    if (request.scores_prompts()) {
      return InvalidField("echo", "can not be had together with logprobs and a session");
    }
  }
  if (several && !request.idempotency_key.empty()) {
    return InvalidField("Idempotency-Key", "is for requests with one prompt and one choice");
  }
  if (request.stream && request.best_of > request.n) {
    return InvalidField("best_of", "must be equal to n for a stream");
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const JsonFields& fields, const std::string& served) {
  FERMATA_ASSIGN_OR_RETURN(const auto model, fields.String("model"));
  if (!model.has_value() || *model == "default" || *model == served) return absl::OkStatus();
  return ModelNotFound(served);
}

absl::Status ModelNotFound(const std::string& served) {
  return MakeError(absl::StatusCode::kNotFound,
                   "there is no model of that name; this server has " + served,
                   {.reason = "model_not_found", .metadata = {{"field", "model"}}});
}

std::string TenantOf(const std::string& user) {
  const bool printable = std::ranges::all_of(user, [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (printable && user.size() <= kMaxTenantBytes) return user;
  const XXH128_hash_t hash = XXH3_128bits(user.data(), user.size());
  return absl::StrFormat("user-%016x%016x", hash.high64, hash.low64);
}

uint64_t SeedOf(uint64_t seed, int index) {
  if (index == 0) return seed;
  // The output function of SplitMix64 (Steele et al., OOPSLA 2014): neighbours become strangers.
  uint64_t mixed = seed + static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

}  // namespace fermata
