#ifndef FERMATA_ENGINE_SESSION_TOMBSTONES_H_
#define FERMATA_ENGINE_SESSION_TOMBSTONES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "xxhash.h"

namespace fermata {

// Remembers which ids were lost most recently, up to a number: a client can be told that its
// session has expired rather than that it never was. Kept as 64-bit hashes, 3 MB for 65,536: a
// collision, one in 2^48, costs no more than the wrong one of two reasons. Not thread-safe.
class Tombstones {
 public:
  explicit Tombstones(size_t max) : max_(max) {}

  void Add(std::string_view id) {
    const uint64_t hash = Hash(id);
    order_.emplace_back(hash, ++count_);
    latest_[hash] = count_;
    if (order_.size() <= max_) return;
    const auto [oldest, number] = order_.front();
    order_.pop_front();
    const auto it = latest_.find(oldest);
    if (it != latest_.end() && it->second == number) latest_.erase(it);
  }
  void Remove(std::string_view id) { latest_.erase(Hash(id)); }
  bool Has(std::string_view id) const { return latest_.contains(Hash(id)); }

 private:
  static uint64_t Hash(std::string_view id) { return XXH3_64bits(id.data(), id.size()); }

  const size_t max_;
  uint64_t count_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> order_;  // Hash and number of each Add, oldest first.
  absl::flat_hash_map<uint64_t, uint64_t> latest_;   // Number of the last Add of a hash.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_TOMBSTONES_H_
