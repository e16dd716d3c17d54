// The sessions that a directory holds at the start.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/session/session_store_impl.h"

namespace fermata {
namespace {

// The snapshots of one session, by their places among those found.
struct Group {
  size_t head = 0;
  std::vector<size_t> older;  // In the order of their keys.
};

Kept KeptOf(const DiskTier::Found& found) {
  return {.at = CheckpointOf(found.name, found.record), .below = true};
}

}  // namespace

void SessionStore::Impl::Adopt(std::vector<DiskTier::Found> found) {
  absl::flat_hash_map<std::string, Group> groups;
  for (size_t i = 0; i < found.size(); ++i) {
    SkipKeys(found[i].name.key);
    const auto [it, added] = groups.try_emplace(found[i].record.id);
    if (!added) it->second.older.push_back(it->second.head);
    it->second.head = i;
  }
  const absl::Time now = options.clock();
  std::vector<SnapshotKey> leftovers;
  const std::lock_guard lock(mutex);
  for (const auto& [id, group] : groups) {
    const SessionRecord& record = found[group.head].record;
    const auto lists = [&record](const SnapshotName& name) {
      return std::find_if(record.checkpoints.begin(), record.checkpoints.end(),
                          [&](const Checkpoint& at) { return at.snapshot == name; });
    };
    std::vector<Kept> checkpoints;
    for (const size_t i : group.older) {
      const auto listed = lists(found[i].name);
      if (listed == record.checkpoints.end()) {
        leftovers.push_back(found[i].name.key);
      } else {
        checkpoints.push_back({.at = *listed, .below = true});
      }
    }
    Entry& entry = index.Add(id);
    index.Settle(entry, record, KeptOf(found[group.head]), std::move(checkpoints));
    index.Release(entry);
  }
  std::sort(leftovers.begin(), leftovers.end());
  if (eraser != nullptr) eraser->Add(std::move(leftovers));
  DropExpired(now);
}

}  // namespace fermata
