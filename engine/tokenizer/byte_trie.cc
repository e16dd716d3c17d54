#include "engine/tokenizer/byte_trie.h"

#include <algorithm>

namespace fermata {
namespace {

// The entries [begin, end), which share their first `depth` bytes, are the node and all below it.
struct Branch {
  size_t begin = 0;
  size_t end = 0;
  size_t depth = 0;
  uint32_t node = 0;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<Entry> entries) : nodes_(1) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  const auto byte_at = [&](size_t entry, size_t depth) {
    return static_cast<uint8_t>(entries[entry].first[depth]);
  };
  std::vector<Branch> open = {{.begin = 0, .end = entries.size()}};
  while (!open.empty()) {
    Branch branch = open.back();
    open.pop_back();
    // What ends here sorts before what goes on.
    while (branch.begin < branch.end && entries[branch.begin].first.size() == branch.depth) {
      int32_t& value = nodes_[branch.node].value;
      if (branch.depth > 0 && value < 0) value = entries[branch.begin].second;
      ++branch.begin;
    }
    if (branch.begin == branch.end) continue;
    const uint8_t low = byte_at(branch.begin, branch.depth);
    const uint8_t high = byte_at(branch.end - 1, branch.depth);
    Node& node = nodes_[branch.node];
    node.low = low;
    node.span = static_cast<uint16_t>(high - low + 1);
    node.first_child = static_cast<uint32_t>(children_.size());
    const uint32_t first_child = node.first_child;
    children_.resize(children_.size() + node.span);
    for (size_t begin = branch.begin; begin < branch.end;) {
      const uint8_t byte = byte_at(begin, branch.depth);
      size_t end = begin;
      while (end < branch.end && byte_at(end, branch.depth) == byte) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      children_[first_child + byte - low] = child;
      nodes_.emplace_back();
      open.push_back({.begin = begin, .end = end, .depth = branch.depth + 1, .node = child});
      begin = end;
    }
  }
}

}  // namespace fermata
