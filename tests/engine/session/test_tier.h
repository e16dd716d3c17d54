#ifndef FERMATA_TESTS_ENGINE_SESSION_TEST_TIER_H_
#define FERMATA_TESTS_ENGINE_SESSION_TEST_TIER_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/session/tier.h"

namespace fermata {

// A tier that does what another does, but that can be made to wait, to be full and to find damage.
// What it holds outlives it with the other one.
class TestTier : public Tier {
 public:
  // What a test does to it, and sees of it.
  struct Controls {
    // Calls that write, and that read states, wait while it is closed.
    void Close() { Set(true); }
    void Open() { Set(false); }
    void Pass() {
      std::unique_lock lock(mutex);
      ++arrived;
      changed.notify_all();
      changed.wait(lock, [this] { return !closed; });
    }
    // Until so many calls have come since the start.
    void AwaitArrivals(int64_t count) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return arrived >= count; });
    }
    int64_t Arrivals() {
      const std::lock_guard lock(mutex);
      return arrived;
    }
    void Damage(SnapshotKey key) {
      const std::lock_guard lock(mutex);
      damaged.insert(key);
    }
    bool IsDamaged(SnapshotKey key) {
      const std::lock_guard lock(mutex);
      return damaged.contains(key);
    }
    void Set(bool close) {
      const std::lock_guard lock(mutex);
      closed = close;
      changed.notify_all();
    }

    std::atomic<bool> full = false;
    std::atomic<int64_t> puts = 0;       // Calls,
    std::atomic<int64_t> snapshots = 0;  // and what they put.

    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false;
    int64_t arrived = 0;
    std::set<SnapshotKey> damaged;
    std::vector<SnapshotKey> set_aside;
  };

  TestTier(std::shared_ptr<Tier> inner, Controls& controls)
      : inner_(std::move(inner)), controls_(controls) {}

  std::string_view name() const override { return "below"; }
  std::vector<absl::Status> Put(std::span<const NewSnapshot> snapshots) override {
    controls_.Pass();
    ++controls_.puts;
    if (controls_.full) {
      return std::vector<absl::Status>(
          snapshots.size(), MakeError(absl::StatusCode::kResourceExhausted, "the disk is full",
                                      {.reason = "DISK_FULL", .metadata = {}, .retry_after = {}}));
    }
    controls_.snapshots += static_cast<int64_t>(snapshots.size());
    return inner_->Put(snapshots);
  }
  absl::StatusOr<SessionRecord> Record(SnapshotKey key) const override {
    return inner_->Record(key);
  }
  absl::Status State(SnapshotKey key, std::span<std::byte> state) const override {
    controls_.Pass();
    if (controls_.IsDamaged(key)) return DamagedState(0);
    return inner_->State(key, state);
  }
  bool HasState(SnapshotKey state) const override { return inner_->HasState(state); }
  absl::Status Erase(std::span<const SnapshotKey> keys) override { return inner_->Erase(keys); }
  absl::Status SetAside(SnapshotKey key) override {
    {
      const std::lock_guard lock(controls_.mutex);
      controls_.set_aside.push_back(key);
    }
    return inner_->SetAside(key);
  }
  TierUsage usage() const override { return inner_->usage(); }

 private:
  const std::shared_ptr<Tier> inner_;
  Controls& controls_;
};

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SESSION_TEST_TIER_H_
