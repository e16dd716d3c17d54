// What a turn pays to its session: find it, read the state, commit it; and forks and rewinds.
//   build/dev/bin/session_bench
// What is on disk is kept in $FERMATA_BENCH_DIR, else in a directory beside where it is run.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/session/disk_tier.h"
#include "engine/session/memory_tier.h"
#include "engine/session/session_store.h"

namespace fermata {
namespace {

constexpr int kSessions = 16;  // Taken in turn, so that large states come from memory, not cache.

SessionStoreOptions OptionsFor(int64_t state_bytes, int sessions) {
  SessionStoreOptions options;
  options.state_bytes = state_bytes;
  options.memory_bytes = sessions * (state_bytes + 2 * MemoryTier::kHeadRoom);
  return options;
}

// A store over a directory of its own, which goes with it.
class DiskStore {
 public:
  DiskStore(int64_t state_bytes, int sessions_in_memory) {
    const char* parent = std::getenv("FERMATA_BENCH_DIR");
    directory_ = std::string(parent == nullptr ? "." : parent) + "/session_bench.sessions";
    std::filesystem::remove_all(directory_);
    DiskTier::Options disk;
    disk.directory = directory_;
    disk.state_bytes = state_bytes;
    store_ = std::make_unique<SessionStore>(OptionsFor(state_bytes, sessions_in_memory),
                                            DiskTier::Open(disk).value());
  }
  ~DiskStore() {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  SessionStore& operator*() { return *store_; }

 private:
  std::string directory_;
  std::unique_ptr<SessionStore> store_;
};

SessionStore::BeginOptions Turn(int session, Durability durability = Durability::kMemory) {
  SessionStore::BeginOptions options;
  options.id = "session-" + std::to_string(session);
  options.create_if_missing = true;
  if (durability == Durability::kDisk) options.durability = durability;
  return options;
}

// Begins a turn; the future is of its commit.
std::future<bool> StartTurn(SessionStore& store, const SessionStore::BeginOptions& options,
                            std::vector<std::byte>& state) {
  auto done = std::make_shared<std::promise<bool>>();
  std::future<bool> result = done->get_future();
  auto lease = store.Begin(options);
  if (!lease.ok() || !lease->Fetch().ok() || !lease->ReadState(state).ok()) {
    done->set_value(false);
    return result;
  }
  SessionRecord record = lease->record();
  record.pending_token = 1;
  ++record.position;
  record.sampler_memory.resize(1024);  // Of 256 tokens.
  lease->Commit(record, state, [done](const absl::StatusOr<SessionRecord>& committed) {
    done->set_value(committed.ok());
  });
  return result;
}

bool RunTurn(SessionStore& store, const SessionStore::BeginOptions& options,
             std::vector<std::byte>& state) {
  return StartTurn(store, options, state).get();
}

void BM_Turn(benchmark::State& bench) {
  SessionStore store(OptionsFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  for (int i = 0; i < kSessions; ++i) RunTurn(store, Turn(i), state);
  int next = 0;
  for (auto _ : bench) {
    if (!RunTurn(store, Turn(next++ % kSessions), state)) bench.SkipWithError("a turn failed");
  }
  bench.SetBytesProcessed(2 * bench.iterations() * bench.range(0));
}
BENCHMARK(BM_Turn)->Arg(400'000)->Arg(2'400'000)->Arg(16'000'000);

// The first turn of a session that takes the place of another.
void BM_FirstTurnEvicting(benchmark::State& bench) {
  SessionStore store(OptionsFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  int next = 0;
  for (int i = 0; i < 2 * kSessions; ++i) RunTurn(store, Turn(next++), state);
  for (auto _ : bench) {
    if (!RunTurn(store, Turn(next++), state)) bench.SkipWithError("a turn failed");
  }
}
BENCHMARK(BM_FirstTurnEvicting)->Arg(400'000)->Arg(2'400'000)->Arg(16'000'000);

// Begin, Fetch and ReadState of a session in memory, and of one on disk in a warm page cache.
void Resume(benchmark::State& bench, SessionStore& store, int sessions) {
  std::vector<std::byte> state(bench.range(0));
  int next = 0;
  for (auto _ : bench) {
    auto lease = store.Begin(Turn(next++ % sessions));
    if (!lease->Fetch().ok() || !lease->ReadState(state).ok()) bench.SkipWithError("a turn failed");
  }
  bench.SetBytesProcessed(bench.iterations() * bench.range(0));
}

void BM_ResumeFromMemory(benchmark::State& bench) {
  SessionStore store(OptionsFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  for (int i = 0; i < kSessions; ++i) RunTurn(store, Turn(i), state);
  Resume(bench, store, kSessions);
}
BENCHMARK(BM_ResumeFromMemory)->Arg(400'000)->Arg(2'400'000)->Arg(16'000'000)->UseRealTime();

void BM_ResumeFromDisk(benchmark::State& bench) {
  constexpr int kOnDisk = 4 * kSessions;
  DiskStore store(bench.range(0), kSessions);
  std::vector<std::byte> state(bench.range(0));
  for (int i = 0; i < kOnDisk; ++i) RunTurn(*store, Turn(i), state);
  (*store).Flush().IgnoreError();
  Resume(bench, *store, kOnDisk);
}
BENCHMARK(BM_ResumeFromDisk)->Arg(400'000)->Arg(2'400'000)->Arg(16'000'000)->UseRealTime();

// Durable turns, so many at a time.
void BM_DurableTurns(benchmark::State& bench) {
  const int at_once = bench.range(1);
  DiskStore store(bench.range(0), 2 * at_once);
  std::vector<std::byte> state(bench.range(0));
  for (auto _ : bench) {
    std::vector<std::future<bool>> turns;
    for (int i = 0; i < at_once; ++i) {
      turns.push_back(StartTurn(*store, Turn(i, Durability::kDisk), state));
    }
    for (std::future<bool>& turn : turns) {
      if (!turn.get()) bench.SkipWithError("a turn failed");
    }
  }
  bench.SetItemsProcessed(bench.iterations() * at_once);
}
BENCHMARK(BM_DurableTurns)->ArgsProduct({{400'000, 2'400'000, 16'000'000}, {1, 16}})->UseRealTime();

void BM_Fork(benchmark::State& bench) {
  SessionStore store(OptionsFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  RunTurn(store, Turn(0), state);
  SessionStore::ForkOptions options;
  options.target.id = "fork";
  for (auto _ : bench) {
    if (!store.Fork("session-0", options).ok()) bench.SkipWithError("a fork failed");
    bench.PauseTiming();
    store.Delete("fork").IgnoreError();
    bench.ResumeTiming();
  }
}
BENCHMARK(BM_Fork)->Arg(400'000)->Arg(16'000'000);

// Back by one turn; the turn that makes the next rewind possible is not counted.
void BM_Rewind(benchmark::State& bench) {
  SessionStore store(OptionsFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  SessionStore::BeginOptions turn = Turn(0);
  turn.max_checkpoints = 2;
  RunTurn(store, turn, state);
  for (auto _ : bench) {
    bench.PauseTiming();
    RunTurn(store, turn, state);
    bench.ResumeTiming();
    if (!store.Rewind("session-0", {.before_last_turn = true}).ok()) {
      bench.SkipWithError("a rewind failed");
    }
  }
}
BENCHMARK(BM_Rewind)->Arg(400'000)->Arg(16'000'000);

// No time: how many sessions fit into a GiB, against what their states alone would be.
void BM_SessionsPerGiB(benchmark::State& bench) {
  for (auto _ : bench) {
    SessionStoreOptions options;
    options.state_bytes = bench.range(0);
    options.memory_bytes = int64_t{1} << 30;
    SessionStore store(options);
    std::vector<std::byte> state(bench.range(0));
    for (int i = 0; store.stats().evictions == 0; ++i) RunTurn(store, Turn(i), state);
    const double sessions = static_cast<double>(store.stats().sessions);
    bench.counters["sessions"] = sessions;
    bench.counters["overhead_percent"] =
        100 * (static_cast<double>(options.memory_bytes) /
                   (sessions * static_cast<double>(options.state_bytes)) -
               1);
  }
}
BENCHMARK(BM_SessionsPerGiB)->Arg(400'000)->Arg(2'400'000)->Arg(16'000'000)->Iterations(1);

void BM_ListPage(benchmark::State& bench) {
  const int sessions = bench.range(0);
  SessionStore store(OptionsFor(1024, sessions));
  std::vector<std::byte> state(1024);
  for (int i = 0; i < sessions; ++i) RunTurn(store, Turn(i), state);
  for (auto _ : bench) benchmark::DoNotOptimize(store.List({}));
}
BENCHMARK(BM_ListPage)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
