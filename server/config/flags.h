#ifndef FERMATA_SERVER_CONFIG_FLAGS_H_
#define FERMATA_SERVER_CONFIG_FLAGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/weights.h"
#include "engine/scheduler/engine.h"
#include "engine/session/snapshot.h"
#include "server/config/command_line.h"
#include "server/config/http_flags.h"
#include "server/config/openai_flags.h"
#include "server/config/session_tiers.h"
#include "server/observe/logging.h"

namespace fermata {

// How long turns may take.
struct TimeLimits {
  absl::Duration fallback = absl::InfiniteDuration();  // Of a request that names none.
  absl::Duration longest = absl::InfiniteDuration();   // Of any request.
};

struct KeepaliveOptions {
  absl::Duration time;               // Without a frame from the client, until it is pinged.
  absl::Duration timeout;            // For its answer, until the connection is given up.
  absl::Duration min_ping_interval;  // Between a client's pings, without being cut off.
};

// The server's configuration, as the flags give it: checked, and in the units that the code uses.
struct ServerConfig {
  std::string model_dir;              // As given; may be empty.
  std::optional<WeightType> weights;  // Nullopt: as stored.
  std::string grpc_address;
  HttpOptions http;
  OpenAiOptions openai;   // But for model_path.
  std::string port_file;  // Empty: none.
  SessionTiers session_tiers;
  std::optional<absl::Duration> session_ttl;
  Durability session_durability = Durability::kMemory;
  int session_checkpoints = 0;
  int64_t prefix_cache_bytes = 0;   // 0: none.
  absl::Duration answer_retention;  // 0: while the turn runs.
  int64_t answer_retention_bytes = 0;
  EngineOptions engine;
  int compute_threads = 1;
  std::vector<int> compute_cpus;  // Empty: any.
  TimeLimits time_limits;
  int stream_buffer_tokens = 0;
  int max_message_bytes = 0;
  absl::Duration drain_grace;
  KeepaliveOptions keepalive;
  LogOptions log;
  bool vllm_metric_names = false;
};

// All flags of the server, in the order of the help.
std::span<const FlagGroup> ServerFlags();

// The configuration that the flags hold now. INVALID_ARGUMENT naming the flag and the reason.
absl::StatusOr<ServerConfig> ConfigFromFlags();

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_FLAGS_H_
