#ifndef FERMATA_SERVER_OPENAI_KEPT_PROMPTS_H_
#define FERMATA_SERVER_OPENAI_KEPT_PROMPTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fermata {

// What messages came to on a session, by the key of the request that brought them. The answer to a
// request that is sent twice is found by the same turn, and what the messages come to depends on where
// the session stands, which the first of the two has changed. Bounded; thread-safe.
class KeptPrompts {
 public:
  struct Rendered {
    std::vector<int32_t> token_ids;
    int64_t position = 0;  // Of the session.
  };
  using Key = std::pair<std::string, std::string>;  // Tenant, key.

  // Of a request with the same body.
  std::optional<Rendered> Find(const Key& key, const std::string& body) const;
  // In the place of what is kept under the key.
  void Put(const Key& key, const std::string& body, Rendered rendered);

 private:
  struct Entry {
    uint64_t body[2];  // Its hash.
    Rendered rendered;
  };
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::deque<Key> order_;  // Oldest first.
  size_t tokens_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_KEPT_PROMPTS_H_
