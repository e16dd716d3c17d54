#ifndef FERMATA_ENGINE_TOKENIZER_BYTE_TRIE_H_
#define FERMATA_ENGINE_TOKENIZER_BYTE_TRIE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

// A set of byte strings, each with a value, that finds the ones a text begins with. Immutable and
// thread-safe.
class ByteTrie {
 public:
  using Entry = std::pair<std::string, int32_t>;

  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  // Empty strings are left out. Of equal strings the first counts. Values must not be negative.
  explicit ByteTrie(std::vector<Entry> entries);

  // Calls `match(length, value)` with each string that `text` begins with, the shortest first.
  template <typename Match>
  void ForEachPrefix(std::string_view text, Match match) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(nodes_[node], static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) match(i + 1, nodes_[node].value);
    }
  }

 private:
  // Its children are the bytes low to low + span - 1: children_[first_child] and on, 0 where there
  // is none.
  struct Node {
    int32_t value = -1;
    uint32_t first_child = 0;
    uint16_t span = 0;
    uint8_t low = 0;
  };

  uint32_t Child(const Node& node, uint8_t byte) const {
    const auto offset = static_cast<uint8_t>(byte - node.low);
    return offset < node.span ? children_[node.first_child + offset] : 0;
  }

  std::vector<Node> nodes_;  // Node 0 is the root.
  std::vector<uint32_t> children_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BYTE_TRIE_H_
