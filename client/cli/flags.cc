#include "client/cli/flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/leaves.h"
#include "client/client.h"

namespace fermata::cli {
namespace {

// Splits KEY=VALUE at the first '='.
std::pair<std::string, std::string> KeyValue(const std::string& name, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw CLI::ValidationError(name, text + " has no '='");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// A flag that sets a scalar of SamplingParams. `Value` is the field's type.
template <typename Value>
void AddScalar(CLI::App* app, v1::SamplingParams* sampling, const std::string& name,
               void (v1::SamplingParams::*set)(Value), const std::string& description) {
  app->add_option_function<Value>(
         name, [sampling, set](const Value& value) { (sampling->*set)(value); }, description)
      ->type_name("N");
}

void AddPenalties(CLI::App* app, v1::SamplingParams* sampling) {
  using S = v1::SamplingParams;
  AddScalar(app, sampling, "--repetition-penalty", &S::set_repetition_penalty,
            "Make tokens that occurred less likely, by ratio; default 1 does nothing");
  AddScalar(app, sampling, "--presence-penalty", &S::set_presence_penalty,
            "Subtract this once from logits of tokens that occurred; default 0");
  AddScalar(app, sampling, "--frequency-penalty", &S::set_frequency_penalty,
            "Subtract this for each time that a token occurred; default 0");
  AddScalar(app, sampling, "--penalty-window", &S::set_penalty_window,
            "Tokens that the penalties look back on; default 256");
  AddRepeated(app, "--logit-bias", "ID=BIAS", "Add BIAS to the logit of token ID; may be repeated",
              [sampling](const std::string& text) {
                const auto [id, bias] = KeyValue("--logit-bias", text);
                int32_t id_value = 0;
                float bias_value = 0;
                if (!absl::SimpleAtoi(id, &id_value) || !absl::SimpleAtof(bias, &bias_value)) {
                  throw CLI::ValidationError("--logit-bias", text + " is not ID=BIAS in numbers");
                }
                (*sampling->mutable_logit_bias())[id_value] = bias_value;
              });
}

void AddSampling(CLI::App* app, v1::SamplingParams* sampling) {
  using S = v1::SamplingParams;
  AddScalar(app, sampling, "--max-new-tokens,-n", &S::set_max_new_tokens,
            "Generate at most this many tokens; default 128");
  AddScalar(app, sampling, "--min-new-tokens", &S::set_min_new_tokens,
            "Do not stop before this many tokens; default 0");
  AddScalar(app, sampling, "--temperature,-t", &S::set_temperature,
            "0 takes the most likely token, more gives more variety; default 1");
  AddScalar(app, sampling, "--top-k", &S::set_top_k,
            "Keep the k most likely tokens; default 0 keeps all");
  AddScalar(app, sampling, "--top-p", &S::set_top_p,
            "Keep the most likely tokens up to this mass; default 1");
  AddScalar(app, sampling, "--min-p", &S::set_min_p,
            "Drop tokens less likely than this part of the most likely one; default 0");
  // Not AddScalar: CLI11 takes -1 for the largest unsigned number.
  AddText(app, "--seed", "N", "The same seed gives the same tokens; default: the server draws one",
          [sampling](const std::string& text) {
            uint64_t seed = 0;
            if (!absl::SimpleAtoi(text, &seed)) {
              throw CLI::ValidationError("--seed", text + " is not a number from 0 to 2^64 - 1");
            }
            sampling->set_seed(seed);
          });
  AddRepeated(app, "--stop", "TEXT", "Stop before this text; may be repeated",
              [sampling](const std::string& text) { sampling->add_stop(text); });
  AddRepeated(app, "--stop-token", "ID", "Stop after this token; may be repeated",
              [sampling](const std::string& text) {
                ParseTokenIds("--stop-token", text, sampling->mutable_stop_token_ids());
              });
  app->add_flag_function(
      "--ignore-eos", [sampling](int64_t) { sampling->set_ignore_eos(true); },
      "Go on after the model's own end-of-text token");
  AddScalar(app, sampling, "--logprobs", &S::set_logprobs,
            "Tell log-probabilities, and those of the N most likely (shown by --json)");
  AddPenalties(app, sampling);
}

}  // namespace

// A flag that may be given several times, each time with one value.
void AddRepeated(CLI::App* app, const std::string& name, const std::string& type,
                 const std::string& description, const Setter& each) {
  app->add_option_function<std::vector<std::string>>(
         name,
         [each](const std::vector<std::string>& values) {
           for (const std::string& value : values) each(value);
         },
         description)
      ->type_name(type)
      ->allow_extra_args(false);
}

void AddText(CLI::App* app, const std::string& name, const std::string& type,
             const std::string& description, const Setter& set) {
  app->add_option_function<std::string>(name, set, description)->type_name(type);
}

void AddDuration(CLI::App* app, const std::string& name, const std::string& description,
                 const std::function<void(absl::Duration)>& set) {
  AddText(app, name, "TIME", description, [name, set](const std::string& text) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
        duration > absl::Hours(24 * 365 * 1000)) {
      throw CLI::ValidationError(name, text + " is not a time such as 500ms, 90s or 12h");
    }
    set(duration);
  });
}

void AddDuration(CLI::App* app, const std::string& name, const std::string& description,
                 const DurationField& field) {
  AddDuration(app, name, description, [field](absl::Duration duration) {
    google::protobuf::Duration* out = field();
    out->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
    out->set_nanos(static_cast<int32_t>(duration / absl::Nanoseconds(1)));
  });
}

void AddLabels(CLI::App* app, const std::string& description,
               const std::function<void(const std::string& key, const std::string& value)>& add) {
  AddRepeated(app, "--label", "KEY=VALUE", description, [add](const std::string& text) {
    const auto [key, value] = KeyValue("--label", text);
    add(key, value);
  });
}

void ParseTokenIds(const std::string& name, const std::string& text,
                   google::protobuf::RepeatedField<int32_t>* ids) {
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(", \n"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      throw CLI::ValidationError(name, std::string(part) + " is not a token id");
    }
    ids->Add(id);
  }
}

void AddDurability(CLI::App* app, const std::function<void(v1::Durability)>& set) {
  AddText(app, "--durability", "NAME",
          "Where a turn must be before it is told as complete: memory, or disk",
          [set](const std::string& name) {
            if (name != "memory" && name != "disk") {
              throw CLI::ValidationError("--durability", name + " is neither memory nor disk");
            }
            set(name == "disk" ? v1::DISK : v1::MEMORY);
          });
}

void AddCheckpoints(CLI::App* app, const std::function<void(int32_t)>& set) {
  app->add_option_function<int32_t>("--checkpoints", set,
                                    "Past turns' ends that are kept, to rewind or fork to: 0 to 64")
      ->type_name("N");
}

void AddPlace(CLI::App* app, const std::function<v1::Checkpoint*()>& place) {
  const auto number = [app](const std::string& name, const std::string& description,
                            const std::function<void(int64_t)>& set) {
    return app->add_option_function<int64_t>(name, set, description)->type_name("N");
  };
  auto* turns = number("--turns", "The checkpoint after so many turns",
                       [place](int64_t turns) { place()->set_turns(turns); });
  auto* position = number("--position", "The checkpoint at this position",
                          [place](int64_t position) { place()->set_position(position); });
  auto* last = app->add_flag_function(
      "--before-last-turn", [place](int64_t) { place()->set_before_last_turn(true); },
      "The checkpoint before the last turn");
  turns->excludes(position)->excludes(last);
  position->excludes(last);
}

void Leaves::AddCommon(CLI::App* app) const {
  app->add_option("--server", common_->server,
                  absl::StrCat("Where the server is; default $FERMATA_SERVER, else ",
                               client::kDefaultAddress))
      ->type_name("HOST:PORT");
  app->add_flag("--json", common_->json, "Print JSON, one object a line (see `fermata help`)");
  AddDuration(app, "--deadline", "Give each call up after this long; default never",
              [common = common_](absl::Duration deadline) { common->deadline = deadline; });
}

void AddTurn(CLI::App* app, v1::GenerateRequest* request) {
  AddOrigin(app, request);
  AddDuration(app, "--ttl", "Drop the session when it has not been used for this long",
              [request] { return request->mutable_session()->mutable_time_to_live(); });
  AddDuration(app, "--time-limit", "End the turn after this long, queueing included",
              [request] { return request->mutable_time_limit(); });
  app->add_flag_function(
      "--parse-special", [request](int64_t) { request->set_parse_special(true); },
      "Text that spells a special token becomes that token");
  AddText(app, "--session", "ID", "Go on with this session, and keep it",
          [request](const std::string& id) { request->mutable_session()->set_id(id); });
  AddDurability(app, [request](v1::Durability durability) {
    request->mutable_session()->set_durability(durability);
  });
  AddCheckpoints(app, [request](int32_t n) { request->mutable_session()->set_max_checkpoints(n); });
  AddText(app, "--fork-from", "ID", "Where the session is made: as a fork of this one",
          [request](const std::string& id) {
            request->mutable_session()->set_fork_from(id);
            request->mutable_session()->set_create_if_missing(true);
          });
  AddText(app, "--on-disconnect", "WHAT",
          "When the connection is lost: cancel the turn, or finish it (with --request-id)",
          [request](const std::string& what) {
            if (what != "cancel" && what != "finish") {
              throw CLI::ValidationError("--on-disconnect", what + " is neither cancel nor finish");
            }
            request->set_on_disconnect(what == "finish" ? v1::ON_DISCONNECT_FINISH
                                                        : v1::ON_DISCONNECT_CANCEL);
          });
  AddSampling(app, request->mutable_sampling());
}

}  // namespace fermata::cli
