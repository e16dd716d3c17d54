#include "server/openai/kept_prompts.h"

#include <algorithm>

#include "xxhash.h"

namespace fermata {
namespace {

constexpr size_t kMaxEntries = 1024;
constexpr size_t kMaxTokens = 1 << 20;

}  // namespace

std::optional<KeptPrompts::Rendered> KeptPrompts::Find(const Key& key,
                                                       const std::string& body) const {
  const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.body[0] != hash.low64 ||
      found->second.body[1] != hash.high64) {
    return std::nullopt;
  }
  return found->second.rendered;
}

void KeptPrompts::Put(const Key& key, const std::string& body, Rendered rendered) {
  const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
  const std::lock_guard lock(mutex_);
  if (const auto old = entries_.find(key); old != entries_.end()) {
    tokens_ -= old->second.rendered.token_ids.size();
    entries_.erase(old);
    order_.erase(std::ranges::find(order_, key));
  }
  tokens_ += rendered.token_ids.size();
  entries_.emplace(key, Entry{{hash.low64, hash.high64}, std::move(rendered)});
  order_.push_back(key);
  while (order_.size() > kMaxEntries || (tokens_ > kMaxTokens && order_.size() > 1)) {
    const auto oldest = entries_.find(order_.front());
    tokens_ -= oldest->second.rendered.token_ids.size();
    entries_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace fermata
