// What a turn pays to its session: begin, read the state, commit it.
//   build/dev/bin/session_bench

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/session/session_store.h"

namespace fermata {
namespace {

constexpr int kSessions = 16;  // Taken in turn, so that large states come from memory, not cache.

SessionStoreOptions StoreFor(int64_t state_bytes, int sessions) {
  SessionStoreOptions options;
  options.state_bytes = state_bytes;
  options.memory_bytes = sessions * (state_bytes + 64 * 1024);
  return options;
}

SessionStore::BeginOptions Turn(int session) {
  SessionStore::BeginOptions options;
  options.id = "session-" + std::to_string(session);
  options.create_if_missing = true;
  return options;
}

// One turn on `options`' session; false when something failed.
bool RunTurn(SessionStore& store, const SessionStore::BeginOptions& options,
             std::vector<std::byte>& state) {
  auto lease = store.Begin(options);
  if (!lease.ok() || !lease->ReadState(state).ok()) return false;
  SessionRecord record = lease->record();
  record.pending_token = 1;
  ++record.position;
  record.sampler_memory.resize(1024);  // Of 256 tokens.
  lease->Commit(record, state);
  return true;
}

void BM_Turn(benchmark::State& bench) {
  SessionStore store(StoreFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  for (int i = 0; i < kSessions; ++i) RunTurn(store, Turn(i), state);
  int next = 0;
  for (auto _ : bench) {
    if (!RunTurn(store, Turn(next++ % kSessions), state)) bench.SkipWithError("a turn failed");
  }
  bench.SetBytesProcessed(2 * bench.iterations() * bench.range(0));
}
BENCHMARK(BM_Turn)->Arg(256 << 10)->Arg(2 << 20)->Arg(10 << 20);

// The first turn of a session that takes the place of another.
void BM_FirstTurnEvicting(benchmark::State& bench) {
  SessionStore store(StoreFor(bench.range(0), kSessions));
  std::vector<std::byte> state(bench.range(0));
  int next = 0;
  for (int i = 0; i < 2 * kSessions; ++i) RunTurn(store, Turn(next++), state);
  for (auto _ : bench) {
    if (!RunTurn(store, Turn(next++), state)) bench.SkipWithError("a turn failed");
  }
}
BENCHMARK(BM_FirstTurnEvicting)->Arg(256 << 10)->Arg(2 << 20)->Arg(10 << 20);

void BM_ListPage(benchmark::State& bench) {
  const int sessions = bench.range(0);
  SessionStore store(StoreFor(1024, sessions));
  std::vector<std::byte> state(1024);
  for (int i = 0; i < sessions; ++i) RunTurn(store, Turn(i), state);
  for (auto _ : bench) benchmark::DoNotOptimize(store.List({}));
}
BENCHMARK(BM_ListPage)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
