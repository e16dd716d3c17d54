#include "client/cli/bench_flags.h"

#include <string>

#include "absl/strings/numbers.h"
#include "client/cli/flags.h"

namespace fermata::cli {
namespace {

constexpr int64_t kMany = 1'000'000;

void AddRange(CLI::App* app, const std::string& name, const std::string& description,
              bench::TokenRange* range) {
  AddText(app, name, "N|MIN:MAX", description, [name, range](const std::string& text) {
    const auto parsed = bench::ParseTokenRange(text);
    if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
    *range = *parsed;
  });
}

template <typename T>
CLI::Option* AddCount(CLI::App* app, const std::string& name, const std::string& description,
                      T* count, int64_t min, int64_t max = kMany) {
  return app->add_option(name, *count, description)->type_name("N")->check(CLI::Range(min, max));
}

// A positive number.
void AddFactor(CLI::App* app, const std::string& name, const std::string& type,
               const std::string& description, const std::function<void(double)>& set) {
  AddText(app, name, type, description, [name, set](const std::string& text) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value) || !(value > 0) || !(value <= kMany)) {
      throw CLI::ValidationError(name, text + " is not a number above 0");
    }
    set(value);
  });
}

void AddLoad(CLI::App* app, bench::Options* o) {
  app->add_option_function<int64_t>(
         "--concurrency,-c",
         [o](int64_t n) {
           o->load = bench::LoadKind::kClosedLoop;
           o->concurrency = n;
         },
         "Closed loop: so many clients, each waiting for its answer; default 1")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMany));
  AddDuration(app, "--think-time", "Closed loop: a client rests so long after an answer; default 0",
              [o](absl::Duration time) { o->think_time = time; });
  AddFactor(app, "--rate", "R", "Open loop: R requests a second, whatever becomes of them",
            [o](double rate) {
              if (o->load != bench::LoadKind::kConstant) o->load = bench::LoadKind::kPoisson;
              o->rate = rate;
            });
  AddText(app, "--arrivals", "KIND", "With --rate: poisson (the default) or constant",
          [o](const std::string& kind) {
            if (kind != "poisson" && kind != "constant") {
              throw CLI::ValidationError("--arrivals", kind + " is not poisson or constant");
            }
            o->load = kind == "poisson" ? bench::LoadKind::kPoisson : bench::LoadKind::kConstant;
          });
  app->get_option("--arrivals")->needs("--rate");
  AddText(app, "--trace", "FILE", "Open loop: the times and lengths of a trace (see below)",
          [o](const std::string& file) {
            o->load = bench::LoadKind::kTrace;
            o->trace = file;
          });
  AddFactor(app, "--trace-speed", "F", "F times as fast as the trace was; default 1",
            [o](double speed) { o->trace_speed = speed; });
  app->get_option("--trace-speed")->needs("--trace");
  app->get_option("--rate")->excludes("--concurrency");
  app->get_option("--trace")->excludes("--concurrency")->excludes("--rate");
}

void AddPrompts(CLI::App* app, bench::Options* o) {
  app->add_option("--prompts", o->prompts, "Prompts of a file, chosen at random (see below)")
      ->type_name("FILE")
      ->excludes("--trace");
  AddRange(app, "--prompt-tokens", "Prompts of so many random token ids; default 128",
           &o->prompt_tokens);
  AddRange(app, "--generate-tokens,-n", "Tokens to generate, whatever they are; default 64",
           &o->generate_tokens);
  app->get_option("--prompt-tokens")->excludes("--prompts")->excludes("--trace");
  app->get_option("--generate-tokens")->excludes("--trace");
  app->add_option("--temperature,-t", o->temperature, "As of `generate`")->type_name("N");
  app->add_option("--top-k", o->top_k, "As of `generate`")->type_name("N");
  app->add_option("--top-p", o->top_p, "As of `generate`")->type_name("N");
}

void AddSessionFlags(CLI::App* app, bench::Options* o) {
  AddCount(app, "--sessions",
           "Each request goes on with an idle one of N sessions; default 0: none", &o->sessions, 0);
  AddCount(app, "--session-turns", "After so many turns a new session follows; default 0: never",
           &o->session_turns, 0);
  app->add_option("--session-zipf", o->session_zipf,
                  "Choose the i-th session with weight 1/i^S; default 0, all alike")
      ->type_name("S")
      ->check(CLI::Range(0.0, 10.0));
  app->add_flag("--open-sessions", o->open_sessions,
                "Before the run, make all sessions by one short turn each");
  app->add_flag("--keep-sessions", o->keep_sessions, "Do not delete the sessions in the end");
}

void AddExtent(CLI::App* app, bench::Options* o) {
  AddDuration(app, "--duration", "Send for so long, warm-up included; default 30s after it",
              [o](absl::Duration duration) { o->duration = duration; });
  AddCount(app, "--requests", "Send so many requests, beside those of the warm-up", &o->requests, 1,
           int64_t{1} << 40);
  AddDuration(app, "--warmup", "Leave requests of the first so long out of the report; default 0",
              [o](absl::Duration warmup) { o->warmup = warmup; });
  AddDuration(app, "--grace", "Let what runs at the end finish for so long; default 30s",
              [o](absl::Duration grace) { o->grace = grace; });
  app->add_option("--seed", o->seed, "Of everything random; default 1")->type_name("N");
  AddCount(app, "--connections", "Connections to the server; default 1", &o->connections, 1, 1024);
}

void AddReport(CLI::App* app, BenchCommand* command) {
  bench::Options* o = &command->options;
  AddDuration(app, "--slo-ttft", "Goodput: the first token comes within this",
              [o](absl::Duration goal) { o->slo_ttft = goal; });
  AddDuration(app, "--slo-itl", "Goodput: a request's tokens come this often on average",
              [o](absl::Duration goal) { o->slo_itl = goal; });
  app->add_option("--output", command->output, "Write the report as JSON to this file too")
      ->type_name("FILE");
  app->add_option("--commit", command->commit, "Told in the JSON, to know the server's build by")
      ->type_name("TEXT");
  app->add_option("--metrics-url", o->metrics_url,
                  "The server's metrics; default the port after --server's; off: none")
      ->type_name("URL");
}

}  // namespace

void AddBench(CLI::App* app, BenchCommand* command) {
  AddLoad(app, &command->options);
  AddPrompts(app, &command->options);
  AddSessionFlags(app, &command->options);
  AddExtent(app, &command->options);
  AddReport(app, command);
  app->parse_complete_callback([command] {
    const absl::Status status = bench::Validate(command->options);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
  });
}

}  // namespace fermata::cli
