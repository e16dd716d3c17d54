// The dashboard, the rules and the scrape configuration of deploy/, against a real Prometheus that
// scrapes a server under load.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/http_client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/turns.h"

namespace fermata::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::filesystem::path Deploy() {
  return std::filesystem::path(std::getenv("FERMATA_SOURCE_DIR")) / "deploy";
}

json Dashboard() { return json::parse(ReadAll(Deploy() / "grafana/dashboards/fermata.json")); }

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Every query of the dashboard, as Grafana would send it.
std::set<std::string> Queries(const json& dashboard) {
  std::set<std::string> queries;
  const auto add = [&queries](const std::string& text) {
    queries.insert(Replaced(Replaced(text, "$__rate_interval", "10s"), "$instance", ".*"));
  };
  for (const json& panel : dashboard.at("panels")) {
    for (const json& target : panel.value("targets", json::array())) add(target.at("expr"));
  }
  for (const json& variable : dashboard.at("templating").at("list")) {
    std::smatch label;
    const std::string definition = variable.value("definition", "");
    if (std::regex_match(definition, label, std::regex(R"(label_values\((\w+), (\w+)\))"))) {
      add(label[1].str() + "{" + label[2].str() + "!=\"\"}");
    }
  }
  for (const json& annotation : dashboard.at("annotations").at("list")) {
    // It marks what is rare: without the comparison it has a value at any time.
    add(std::regex_replace(annotation.at("expr").get<std::string>(), std::regex(" > 0$"), ""));
  }
  return queries;
}

// Debian's Prometheus, with the configuration of deploy/prometheus but for the target, and for
// intervals of a second.
class Prometheus {
 public:
  explicit Prometheus(int target_port) {
    for (const auto& file : std::filesystem::directory_iterator(Deploy() / "prometheus")) {
      if (file.path().extension() != ".yml") continue;
      std::string text = Replaced(ReadAll(file.path()), "fermata:7412",
                                  "127.0.0.1:" + std::to_string(target_port));
      WriteAll(directory_ / file.path().filename(),
               Replaced(text, "_interval: 15s", "_interval: 1s"));
    }
    process_ = std::make_unique<ChildProcess>(
        "/usr/bin/prometheus",
        std::vector<std::string>{"--config.file=" + (directory_ / "prometheus.yml").string(),
                                 "--storage.tsdb.path=" + (directory_ / "data").string(),
                                 "--web.listen-address=127.0.0.1:0"});
    static const std::regex listening(R"(Listening on" address=127\.0\.0\.1:(\d+))");
    const bool ready = Eventually([this] {
      std::smatch match;
      const std::string log = process_->errors();
      if (port_ == 0 && std::regex_search(log, match, listening)) port_ = std::stoi(match[1]);
      return port_ != 0 && !Rules().empty();
    });
    if (!ready)
      throw std::runtime_error("Prometheus does not answer; its log:\n" + process_->errors());
  }

  // The series that `expr` has now; null when it is refused.
  json Query(const std::string& expr) const {
    const json reply = Get("/api/v1/query", expr);
    return reply.is_object() ? reply.at("data").at("result") : reply;
  }
  // Whether it has a series with a number.
  bool HasData(const std::string& expr) const {
    const json series = Query(expr);
    return series.is_array() && std::ranges::any_of(series, [](const json& one) {
             return one.at("value").at(1) != "NaN";
           });
  }
  // All rules that are loaded; none before it is ready.
  std::vector<json> Rules() const {
    std::vector<json> rules;
    const json reply = Get("/api/v1/rules", "");
    if (!reply.is_object()) return rules;
    for (const json& group : reply.at("data").at("groups")) {
      for (const json& rule : group.at("rules")) rules.push_back(rule);
    }
    return rules;
  }

 private:
  json Get(const std::string& path, const std::string& query) const {
    const HttpReply reply = CallHttp(port_, {.target = path + "?query=" + Encoded(query)});
    const json body = json::parse(reply.body, nullptr, false);
    return body.is_object() && body.value("status", "") == "success" ? body : json();
  }
  static std::string Encoded(const std::string& text) {
    std::string encoded;
    for (const char c : text) {
      char code[4];
      snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(c));
      encoded += code;
    }
    return encoded;
  }

  TempDir directory_;
  std::unique_ptr<ChildProcess> process_;
  int port_ = 0;
};

// Clients of every kind, until it is gone.
class Load {
 public:
  explicit Load(const ServerProcess& server) {
    Run(server, [](client::Client& client, int i) {
      RunTurn(client, On("s" + std::to_string(i % 30), Greedy("Once there was", 6)));
    });
    Run(server, [](client::Client& client, int i) {
      const std::string text =
          "A long beginning that comes again and again, word for word, so that it need not be read "
          "again, however often it may be brought here.";
      v1::GenerateRequest known = Greedy(text, 6);
      known.set_request_id("r" + std::to_string(i));
      known.set_priority(i % 3 - 1);
      RunTurn(client, known);
      v1::ScoreRequest score;
      score.set_text(text);
      (void)client.Score(score);
      v1::GenerateRequest bad = Greedy(text, 1);
      bad.mutable_sampling()->set_top_p(2);
      RunTurn(client, bad);
    });
    // More at once than there is room for, now and then.
    Run(server, [](client::Client& client, int) {
      {
        std::vector<std::unique_ptr<client::GenerateStream>> streams;
        for (int k = 0; k < 10; ++k) streams.push_back(client.StartGenerate(Endless("On and on")));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <typename Work>
  void Run(const ServerProcess& server, Work work) {
    threads_.emplace_back([this, &server, work] {
      const auto client = server.Connect();
      for (int i = 0; !stop_; ++i) work(*client, i);
    });
  }

  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// What is left of `queries` when each that has data within a while is taken out.
std::set<std::string> WithoutData(const Prometheus& prometheus, std::set<std::string> queries) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!queries.empty() && std::chrono::steady_clock::now() < end) {
    std::erase_if(queries, [&](const std::string& query) { return prometheus.HasData(query); });
  }
  return queries;
}

// The series that an expression reads, as it selects them.
std::set<std::string> Selectors(const std::string& expr) {
  static const std::regex selector(R"re([a-z_]+(:[a-z_]+:[a-z_0-9]+)?(\{[^}]*\})?)re");
  std::set<std::string> selectors;
  for (std::sregex_iterator it(expr.begin(), expr.end(), selector), end; it != end; ++it) {
    const std::string text = it->str();
    if (text.starts_with("fermata_") || text.starts_with("process_") || text.starts_with("up{") ||
        text.starts_with("instance")) {
      if (text != "instance") selectors.insert(text);
    }
  }
  return selectors;
}

TEST(PrometheusTest, EveryQueryAndRuleHasData) {
  TempDir disk;
  // Memory for a part of the sessions; places for fewer requests than come.
  ServerProcess server(
      {"--session_tiers=memory:2MiB,disk:" + (disk / "sessions").string() + "?quota=1GiB",
       "--session_durability=disk", "--max_running=6", "--max_queued=2",
       "--vllm_metric_names=true"});
  const Load load(server);
  const Prometheus prometheus(server.http_port());

  std::set<std::string> queries = Queries(Dashboard());
  EXPECT_GT(queries.size(), 50u);
  size_t alerts = 0;
  for (const json& rule : prometheus.Rules()) {
    const std::string expr = rule.at("query");
    if (rule.at("type") == "recording") {
      queries.insert(rule.at("name").get<std::string>());
      queries.insert(expr);
    } else {
      // It has no data as long as all is well, but what it reads must be there.
      ++alerts;
      EXPECT_THAT(Selectors(expr), Not(IsEmpty())) << expr;
      queries.merge(Selectors(expr));
    }
  }
  EXPECT_GT(alerts, 10u);
  queries.insert("vllm:num_requests_running");  // Names with a colon are scraped as well.
  EXPECT_THAT(WithoutData(prometheus, queries), IsEmpty());
  for (const json& rule : prometheus.Rules()) {
    EXPECT_EQ(rule.at("health"), "ok") << rule.dump(2);
  }
  EXPECT_FALSE(prometheus.HasData("fermata_no_such_metric"));
}

TEST(DashboardTest, IsWellFormed) {
  const json dashboard = Dashboard();
  EXPECT_EQ(dashboard.at("uid"), "fermata");
  std::set<std::string> variables;
  for (const json& variable : dashboard.at("templating").at("list")) {
    variables.insert(variable.at("name").get<std::string>());
  }
  std::set<int> ids;
  std::map<std::pair<int, int>, std::string> places;  // Who is at x, y.
  for (const json& panel : dashboard.at("panels")) {
    const std::string title = panel.at("title");
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << title;
    const json& place = panel.at("gridPos");
    const int left = place.at("x"), width = place.at("w");
    EXPECT_LE(left + width, 24) << title;
    for (int x = left; x < left + width; ++x) {
      for (int y = place.at("y"); y < place.at("y").get<int>() + place.at("h").get<int>(); ++y) {
        const auto [there, free] = places.emplace(std::pair(x, y), title);
        EXPECT_TRUE(free) << title << " covers " << there->second;
      }
    }
    if (panel.at("type") == "row") continue;
    EXPECT_EQ(panel.at("datasource").at("uid"), "${datasource}") << title;
    EXPECT_NE(panel.at("description"), "") << title;
    EXPECT_FALSE(panel.at("targets").empty()) << title;
    std::set<std::string> refs;
    for (const json& target : panel.at("targets")) {
      EXPECT_TRUE(refs.insert(target.at("refId").get<std::string>()).second) << title;
      const std::string expr = target.at("expr");
      EXPECT_THAT(expr, HasSubstr("instance=~\"$instance\"")) << title;
      static const std::regex variable(R"(\$(\w+))");
      for (std::sregex_iterator it(expr.begin(), expr.end(), variable), end; it != end; ++it) {
        const std::string name = (*it)[1];
        EXPECT_TRUE(variables.contains(name) || name == "__rate_interval") << name;
      }
    }
  }
  EXPECT_TRUE(variables.contains("datasource"));
}

// The figure that it is all about comes first: the state beside the KV cache.
TEST(DashboardTest, BeginsWithTheStateBesideTheKvCache) {
  const json panel = Dashboard().at("panels").at(1);
  EXPECT_THAT(panel.at("targets").at(0).at("expr").get<std::string>(),
              HasSubstr("fermata_state_bytes_per_session"));
  EXPECT_THAT(panel.at("targets").at(1).at("expr").get<std::string>(),
              HasSubstr("fermata_session_kv_equivalent_bytes"));
}

TEST(PrometheusTest, RulesAndConfigurationAreValidAndAlertsFire) {
  const auto promtool = [](std::vector<std::string> arguments) {
    ChildProcess process("/usr/bin/promtool", arguments);
    EXPECT_EQ(process.Wait(), 0) << process.output() << process.errors();
  };
  const std::string directory = Deploy() / "prometheus";
  promtool({"check", "config", directory + "/prometheus.yml"});
  promtool(
      {"check", "rules", directory + "/recording_rules.yml", directory + "/alerting_rules.yml"});
  promtool({"test", "rules", directory + "/tests/alerts_test.yml"});
}

// Each alert has an entry in the documentation, and a test.
TEST(PrometheusTest, AlertsAreExplainedAndTested) {
  const std::string rules = ReadAll(Deploy() / "prometheus/alerting_rules.yml");
  const std::string tests = ReadAll(Deploy() / "prometheus/tests/alerts_test.yml");
  const std::string documentation = ReadAll(Deploy() / "../docs/observability.md");
  static const std::regex alert(R"(- alert: (\w+))");
  for (std::sregex_iterator it(rules.begin(), rules.end(), alert), end; it != end; ++it) {
    const std::string name = (*it)[1];
    EXPECT_THAT(documentation, HasSubstr("| `" + name + "` |"));
    EXPECT_THAT(tests, HasSubstr("alertname: " + name + "\n"));
  }
}

// What compose.yaml mounts is there, and the dashboard is where Grafana is told to look.
TEST(ComposeTest, MountsWhatIsThere) {
  const std::string compose = ReadAll(Deploy() / "compose.yaml");
  static const std::regex mount(R"(- \./([^:]+):([^:]+):ro)");
  std::set<std::string> inside;
  for (std::sregex_iterator it(compose.begin(), compose.end(), mount), end; it != end; ++it) {
    EXPECT_TRUE(std::filesystem::exists(Deploy() / (*it)[1].str())) << it->str();
    inside.insert((*it)[2]);
  }
  EXPECT_EQ(inside, (std::set<std::string>{"/etc/prometheus", "/etc/grafana/provisioning",
                                           "/etc/grafana/dashboards"}));
  EXPECT_THAT(ReadAll(Deploy() / "grafana/provisioning/dashboards/fermata.yml"),
              HasSubstr("path: /etc/grafana/dashboards\n"));
}

}  // namespace
}  // namespace fermata::e2e
