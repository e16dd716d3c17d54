#include "engine/tokenizer/byte_trie.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

using Matches = std::vector<std::pair<size_t, int32_t>>;

Matches Find(const ByteTrie& trie, const std::string& text) {
  Matches matches;
  trie.ForEachPrefix(text,
                     [&](size_t length, int32_t value) { matches.emplace_back(length, value); });
  return matches;
}

TEST(ByteTrieTest, FindsAllThatATextBeginsWith) {
  std::mt19937 random(3);
  const std::string bytes("ab\x00\x7F\x80\xFF", 6);
  for (int table = 0; table < 200; ++table) {
    const auto any = [&](size_t longest) {
      std::string text;
      for (size_t i = random() % (longest + 1); i > 0; --i) text += bytes[random() % bytes.size()];
      return text;
    };
    std::vector<ByteTrie::Entry> entries;
    std::map<std::string, int32_t> first;
    for (int i = 0; i < table % 50; ++i) {
      entries.emplace_back(any(5), i);
      if (!entries.back().first.empty()) first.emplace(entries.back());
    }
    const ByteTrie trie(entries);
    for (int round = 0; round < 50; ++round) {
      const std::string text = any(7);
      Matches expected;
      for (size_t length = 1; length <= text.size(); ++length) {
        const auto found = first.find(text.substr(0, length));
        if (found != first.end()) expected.emplace_back(length, found->second);
      }
      ASSERT_EQ(Find(trie, text), expected);
    }
  }
}

TEST(ByteTrieTest, KeysMayBeLong) {
  const std::string key(1'000'000, 'x');
  const ByteTrie trie({{key, 7}});
  EXPECT_EQ(Find(trie, key + "y"), (Matches{{key.size(), 7}}));
  EXPECT_EQ(Find(ByteTrie(), "x"), Matches());
}

}  // namespace
}  // namespace fermata
