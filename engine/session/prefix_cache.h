#ifndef FERMATA_ENGINE_SESSION_PREFIX_CACHE_H_
#define FERMATA_ENGINE_SESSION_PREFIX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fermata {

// States after known beginnings of sequences, so that a request which brings a long text anew need
// not consume it anew. A state is found by the token ids that it has consumed, all of them compared,
// and by a scope within which alone it may be used: one tenant can not learn from a reply's speed
// what another has sent.
//
// Bounded: the state that was used longest ago goes. Thread-safe.
class PrefixCache {
 public:
  struct Options {
    int64_t state_bytes = 0;
    int64_t memory_bytes =
        0;  // Of states, token ids and index together; less than one state: none.
  };
  struct Stats {
    int64_t states = 0;
    int64_t bytes = 0;
    int64_t limit_bytes = 0;
    int64_t lookups = 0;
    int64_t hits = 0;
    int64_t hit_tokens = 0;  // That did not have to be consumed.
    int64_t evictions = 0;
  };
  explicit PrefixCache(const Options& options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Copies the state after the longest known beginning of `tokens` to `state`, of state_bytes, and
  // returns how many tokens that is; 0 when none is known, and `state` is left alone.
  int64_t Find(std::string_view scope, std::span<const int32_t> tokens, std::span<std::byte> state);

  // Keeps the state after exactly `tokens`, of which there is at least one. A state that is known is
  // only marked as used.
  void Put(std::string_view scope, std::span<const int32_t> tokens,
           std::span<const std::byte> state);

  Stats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SESSION_PREFIX_CACHE_H_
