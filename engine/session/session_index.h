#ifndef FERMATA_ENGINE_SESSION_SESSION_INDEX_H_
#define FERMATA_ENGINE_SESSION_SESSION_INDEX_H_

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/session/snapshot.h"

namespace fermata {

// What the store knows of its sessions without asking a tier: which there are, which are leased,
// which was used longest ago, which expires first. Every operation takes O(log n) at most. Not
// thread-safe.
//
// An entry is leased (in a turn) or idle. One that was just added is leased and not settled: the
// session does not exist yet, but nobody else may create it. Only idle entries are offered for
// removal, so a leased entry stays where it is in memory.
class SessionIndex {
 public:
  struct Entry {
    std::string_view id() const { return place->first; }

    bool leased = true;
    bool settled = false;
    int64_t position = 0;
    absl::Time expiry = absl::InfiniteFuture();

   private:
    friend class SessionIndex;
    std::map<std::string, Entry, std::less<>>::iterator place;
    std::list<Entry*>::iterator use;  // In idle_, unless leased.
  };

  // The entry of `id`, or null.
  Entry* Find(std::string_view id);

  // A new entry, leased; there must be none of that id.
  Entry& Add(std::string_view id);

  // Takes an idle entry out of what may be removed.
  void Lease(Entry& entry);

  // Makes a leased and settled entry idle: the one that was used last.
  void Release(Entry& entry);

  // Notes the position and expiry that `record`, as stored now, gives to a leased entry.
  void Settle(Entry& entry, const SessionRecord& record);

  void Remove(Entry& entry);

  // The idle entry that was used longest ago; null when all are leased.
  Entry* LeastRecentlyUsed() const;

  // The idle entry that expires first, if it has expired at `now`; else null.
  Entry* Expired(absl::Time now) const;

  // Up to `count` ids after `id`, in order, of sessions that exist and have not expired at `now`.
  std::vector<std::string> After(std::string_view id, size_t count, absl::Time now) const;

  int64_t sessions() const { return sessions_; }    // That are settled.
  int64_t positions() const { return positions_; }  // Their sum.

 private:
  using Sessions = std::map<std::string, Entry, std::less<>>;

  // Takes an idle entry out of idle_ and expiries_.
  void Unlist(Entry& entry);

  Sessions entries_;
  std::list<Entry*> idle_;                            // Least recently used first.
  std::set<std::pair<absl::Time, Entry*>> expiries_;  // Of idle entries with an end.
  int64_t sessions_ = 0;
  int64_t positions_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_SESSION_INDEX_H_
