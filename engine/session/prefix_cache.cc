#include "engine/session/prefix_cache.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/base/aligned_buffer.h"
#include "xxhash.h"

namespace fermata {
namespace {

// What an entry costs beyond its state and its token ids.
constexpr int64_t kIndexBytes = 512;

uint64_t Extend(uint64_t hash, int32_t token) {
  return XXH3_64bits_withSeed(&token, sizeof(token), hash);
}

}  // namespace

struct PrefixCache::Impl {
  // Never changed once it is in the index, so that it can be read without a lock.
  struct Entry {
    uint64_t hash = 0;
    std::string scope;
    std::vector<int32_t> tokens;
    AlignedBuffer<std::byte> state;
  };
  // Most recently used first.
  using Uses = std::list<std::shared_ptr<const Entry>>;

  int64_t BytesOf(const Entry& entry) const {
    return options.state_bytes + static_cast<int64_t>(entry.tokens.size() * sizeof(int32_t)) +
           static_cast<int64_t>(entry.scope.size()) + kIndexBytes;
  }

  // The entry of exactly these tokens, marked as used; null when there is none. Needs the mutex, as
  // the one below does.
  std::shared_ptr<const Entry> Use(uint64_t hash, std::string_view scope,
                                   std::span<const int32_t> tokens);
  void DropLeastRecentlyUsed();

  Options options;
  mutable std::mutex mutex;  // Guards what follows.
  Uses uses;
  absl::flat_hash_map<uint64_t, Uses::iterator> by_hash;
  std::map<size_t, int64_t> lengths;  // Of tokens, and how many entries have each.
  Stats counted;
};

std::shared_ptr<const PrefixCache::Impl::Entry> PrefixCache::Impl::Use(
    uint64_t hash, std::string_view scope, std::span<const int32_t> tokens) {
  const auto found = by_hash.find(hash);
  if (found == by_hash.end()) return nullptr;
  const Entry& entry = **found->second;
  if (entry.scope != scope || !std::ranges::equal(entry.tokens, tokens)) return nullptr;
  uses.splice(uses.begin(), uses, found->second);
  return uses.front();
}

void PrefixCache::Impl::DropLeastRecentlyUsed() {
  const Entry& entry = *uses.back();
  by_hash.erase(entry.hash);
  const auto length = lengths.find(entry.tokens.size());
  if (--length->second == 0) lengths.erase(length);
  counted.bytes -= BytesOf(entry);
  ++counted.evictions;
  uses.pop_back();
}

PrefixCache::PrefixCache(const Options& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->counted.limit_bytes = options.memory_bytes;
}

PrefixCache::~PrefixCache() = default;

int64_t PrefixCache::Find(std::string_view scope, std::span<const int32_t> tokens,
                          std::span<std::byte> state) {
  std::vector<uint64_t> hashes = {XXH3_64bits(scope.data(), scope.size())};
  hashes.reserve(tokens.size() + 1);
  for (const int32_t token : tokens) hashes.push_back(Extend(hashes.back(), token));

  std::shared_ptr<const Impl::Entry> entry;
  {
    const std::lock_guard lock(impl_->mutex);
    ++impl_->counted.lookups;
    const auto& lengths = impl_->lengths;
    auto length = std::make_reverse_iterator(lengths.upper_bound(tokens.size()));
    for (; length != lengths.rend() && entry == nullptr; ++length) {
      entry = impl_->Use(hashes[length->first], scope, tokens.first(length->first));
    }
    if (entry == nullptr) return 0;
    ++impl_->counted.hits;
    impl_->counted.hit_tokens += static_cast<int64_t>(entry->tokens.size());
  }
  assert(state.size() == entry->state.size());
  std::ranges::copy(entry->state, state.begin());
  return static_cast<int64_t>(entry->tokens.size());
}

void PrefixCache::Put(std::string_view scope, std::span<const int32_t> tokens,
                      std::span<const std::byte> state) {
  assert(static_cast<int64_t>(state.size()) == impl_->options.state_bytes && !tokens.empty());
  auto entry = std::make_shared<Impl::Entry>();
  entry->hash = XXH3_64bits(scope.data(), scope.size());
  for (const int32_t token : tokens) entry->hash = Extend(entry->hash, token);
  entry->scope = scope;
  entry->tokens.assign(tokens.begin(), tokens.end());
  const int64_t bytes = impl_->BytesOf(*entry);
  {
    const std::lock_guard lock(impl_->mutex);
    if (bytes > impl_->options.memory_bytes) return;
    if (impl_->Use(entry->hash, scope, tokens) != nullptr) return;
  }
  // Copied while others may look things up.
  entry->state = AlignedBuffer<std::byte>(state.size());
  std::ranges::copy(state, entry->state.begin());

  const std::lock_guard lock(impl_->mutex);
  // Of two whose hashes are one, the first stays; so does what another thread has put meanwhile.
  if (impl_->by_hash.contains(entry->hash)) return;
  while (impl_->counted.bytes + bytes > impl_->options.memory_bytes) impl_->DropLeastRecentlyUsed();
  impl_->counted.bytes += bytes;
  ++impl_->lengths[tokens.size()];
  impl_->uses.push_front(std::move(entry));
  impl_->by_hash[impl_->uses.front()->hash] = impl_->uses.begin();
}

PrefixCache::Stats PrefixCache::stats() const {
  const std::lock_guard lock(impl_->mutex);
  Stats stats = impl_->counted;
  stats.states = static_cast<int64_t>(impl_->uses.size());
  return stats;
}

}  // namespace fermata
