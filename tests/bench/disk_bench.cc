// What the disk tier costs: snapshots made durable one by one and together, states read back beside the
// same bytes read by themselves, and a start.
//   build/dev/bin/disk_bench
// Files are kept in $FERMATA_BENCH_DIR, else in a directory beside where it is run.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/file_system.h"
#include "engine/session/disk_tier.h"

namespace fermata {
namespace {

// A directory that goes with the object, and its tier.
class Disk {
 public:
  explicit Disk(size_t state_bytes) : state_(state_bytes, std::byte{1}) {
    const char* parent = std::getenv("FERMATA_BENCH_DIR");
    options_.directory = std::string(parent == nullptr ? "." : parent) + "/disk_bench.sessions";
    options_.state_bytes = state_bytes;
    std::filesystem::remove_all(options_.directory);
    Open();
  }
  ~Disk() {
    tier_.reset();
    std::filesystem::remove_all(options_.directory);
  }

  void Open() {
    tier_.reset();
    tier_ = DiskTier::Open(options_).value().tier;
  }
  DiskTier& tier() { return *tier_; }
  const std::string& directory() const { return options_.directory; }

  // Puts `count` snapshots at once; false when one failed.
  bool Put(int count) {
    std::vector<SessionRecord> records(count);
    std::vector<NewSnapshot> snapshots;
    for (SessionRecord& record : records) {
      const SnapshotKey key = ++last_;
      record.id = "s-0123456789abcdef0123456789abcdef" + std::to_string(key);
      record.position = 1000;
      record.pending_token = 1;
      record.sampler_memory.resize(1024);  // Of 256 tokens.
      snapshots.push_back({.name = {.key = key, .state = key}, .record = &record, .state = state_});
    }
    for (const absl::Status& status : tier_->Put(snapshots)) {
      if (!status.ok()) return false;
    }
    return true;
  }

 private:
  DiskTier::Options options_;
  std::unique_ptr<DiskTier> tier_;
  std::vector<std::byte> state_;
  SnapshotKey last_ = 0;
};

// Bytes of a state, and snapshots that are made durable together.
void BM_Put(benchmark::State& bench) {
  Disk disk(bench.range(0));
  const auto together = static_cast<int>(bench.range(1));
  for (auto _ : bench) {
    if (!disk.Put(together)) bench.SkipWithError("a put failed");
  }
  bench.SetItemsProcessed(bench.iterations() * together);
  bench.SetBytesProcessed(bench.iterations() * together * bench.range(0));
}
BENCHMARK(BM_Put)
    ->ArgsProduct({{400 << 10, 2400 << 10, 16 << 20}, {1, 8}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// From the page cache.
void BM_State(benchmark::State& bench) {
  Disk disk(bench.range(0));
  std::vector<std::byte> state(bench.range(0));
  if (!disk.Put(1)) bench.SkipWithError("a put failed");
  for (auto _ : bench) {
    if (!disk.tier().State(1, state).ok()) bench.SkipWithError("a read failed");
  }
  bench.SetBytesProcessed(bench.iterations() * bench.range(0));
}
BENCHMARK(BM_State)->Arg(400 << 10)->Arg(2400 << 10)->Arg(16 << 20)->Unit(benchmark::kMicrosecond);

// The same file, read as it is.
void BM_PlainRead(benchmark::State& bench) {
  Disk disk(bench.range(0));
  if (!disk.Put(1)) bench.SkipWithError("a put failed");
  const std::string path = disk.directory() + "/0/0000000000000001.snap";
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  for (auto _ : bench) {
    if (!PosixFileSystem().Read(path, 0, bytes).ok()) bench.SkipWithError("a read failed");
  }
  bench.SetBytesProcessed(bench.iterations() * bench.range(0));
}
BENCHMARK(BM_PlainRead)
    ->Arg(400 << 10)
    ->Arg(2400 << 10)
    ->Arg(16 << 20)
    ->Unit(benchmark::kMicrosecond);

// With so many snapshots, of a state of one block, and an intact index.
void BM_Start(benchmark::State& bench) {
  Disk disk(64);
  for (int64_t i = 0; i < bench.range(0); i += 1000) {
    if (!disk.Put(1000)) bench.SkipWithError("a put failed");
  }
  for (auto _ : bench) disk.Open();
}
BENCHMARK(BM_Start)->Arg(1'000)->Arg(100'000)->Iterations(3)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace fermata

BENCHMARK_MAIN();
