#include "engine/sampling/stop_matcher.h"

#include <algorithm>
#include <cassert>

namespace fermata {
namespace {

// The length of the longest end of `text` that is the beginning, but not the whole, of a stop
// string.
size_t OpenEnd(std::string_view text, const std::vector<std::string>& stop) {
  size_t longest = 0;
  for (const std::string& candidate : stop) {
    size_t length = std::min(text.size(), candidate.size() - 1);
    while (length > longest && !text.ends_with(std::string_view(candidate).substr(0, length))) {
      --length;
    }
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace

StopMatcher::Result StopMatcher::Append(std::string_view text, bool armed) {
  std::string all = std::move(held_);
  held_.clear();
  const size_t seen = all.size();
  all += text;
  if (!armed) return {.text = std::move(all), .matched = std::nullopt};

  const std::string_view view = all;
  for (size_t end = seen + 1; end <= view.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& candidate : stop_) {
      assert(!candidate.empty());
      if (longest != nullptr && candidate.size() <= longest->size()) continue;
      if (view.substr(0, end).ends_with(candidate)) longest = &candidate;
    }
    if (longest != nullptr) {
      all.resize(end - longest->size());
      return {.text = std::move(all), .matched = *longest};
    }
  }
  held_ = view.substr(view.size() - OpenEnd(view, stop_));
  all.resize(all.size() - held_.size());
  return {.text = std::move(all), .matched = std::nullopt};
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace fermata
