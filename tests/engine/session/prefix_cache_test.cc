#include "engine/session/prefix_cache.h"

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace fermata {
namespace {

using Tokens = std::vector<int32_t>;
using State = std::vector<std::byte>;

constexpr int64_t kStateBytes = 4096;

// A state whose bytes tell which tokens it comes from.
State StateOf(const Tokens& tokens) {
  State state(kStateBytes);
  for (size_t i = 0; i < state.size(); ++i) {
    state[i] = static_cast<std::byte>(tokens[i % tokens.size()] + static_cast<int32_t>(i));
  }
  return state;
}

Tokens Count(int32_t from, int32_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  void Put(const Tokens& tokens, std::string_view scope = "") {
    cache_.Put(scope, tokens, StateOf(tokens));
  }

  // How long a beginning was found; its state must be the one that was put for it.
  int64_t Find(const Tokens& tokens, std::string_view scope = "") {
    const State untouched(kStateBytes, std::byte{0xA5});
    State state = untouched;
    const int64_t length = cache_.Find(scope, tokens, state);
    const Tokens beginning(tokens.begin(), tokens.begin() + length);
    EXPECT_EQ(state, length == 0 ? untouched : StateOf(beginning));
    return length;
  }

  PrefixCache cache_{{.state_bytes = kStateBytes, .memory_bytes = 4 * 5000}};
};

TEST_F(PrefixCacheTest, FindsTheLongestBeginning) {
  EXPECT_EQ(Find(Count(0, 10)), 0);
  Put(Count(0, 3));
  Put(Count(0, 7));
  Put(Count(1, 9));
  EXPECT_EQ(Find(Count(0, 10)), 7);
  EXPECT_EQ(Find(Count(0, 7)), 7);
  EXPECT_EQ(Find(Count(0, 6)), 3);
  EXPECT_EQ(Find(Count(0, 2)), 0);
  EXPECT_EQ(Find(Count(1, 100)), 9);
  EXPECT_EQ(Find({0, 1, 2, 99, 4, 5, 6}), 3);
  EXPECT_EQ(Find({}), 0);
}

TEST_F(PrefixCacheTest, KeepsScopesApart) {
  Put(Count(0, 8), "one");
  EXPECT_EQ(Find(Count(0, 9), "two"), 0);
  EXPECT_EQ(Find(Count(0, 9)), 0);
  EXPECT_EQ(Find(Count(0, 9), "one"), 8);
}

TEST_F(PrefixCacheTest, DropsWhatWasUsedLongestAgo) {
  for (const int32_t from : {100, 200, 300, 400}) Put(Count(from, 4));
  ASSERT_EQ(cache_.stats().states, 4);
  EXPECT_EQ(Find(Count(100, 4)), 4);
  Put(Count(200, 4));  // Known: only used.
  Put(Count(500, 4));
  EXPECT_EQ(Find(Count(300, 4)), 0);
  EXPECT_EQ(Find(Count(100, 4)), 4);
  EXPECT_EQ(Find(Count(200, 4)), 4);
  EXPECT_EQ(Find(Count(400, 4)), 4);
  EXPECT_EQ(Find(Count(500, 4)), 4);
  EXPECT_EQ(cache_.stats().evictions, 1);
}

TEST_F(PrefixCacheTest, StaysWithinItsLimitWhateverComes) {
  for (int32_t i = 1; i < 300; ++i) {
    Put(Count(i, i));
    const PrefixCache::Stats stats = cache_.stats();
    EXPECT_LE(stats.bytes, stats.limit_bytes);
    EXPECT_GE(stats.bytes, stats.states * kStateBytes);
  }
  Put(Count(0, 5000));  // Its ids alone leave no room for a state.
  EXPECT_EQ(Find(Count(0, 5000)), 0);
  EXPECT_GT(cache_.stats().states, 0);
}

TEST_F(PrefixCacheTest, CountsWhatItSaves) {
  Put(Count(0, 5));
  Find(Count(0, 9));
  Find(Count(0, 5));
  Find(Count(7, 5));
  const PrefixCache::Stats stats = cache_.stats();
  EXPECT_EQ(stats.lookups, 3);
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.hit_tokens, 10);
}

TEST(PrefixCacheLimitTest, LessThanOneStateKeepsNone) {
  PrefixCache cache({.state_bytes = kStateBytes, .memory_bytes = kStateBytes});
  const Tokens tokens = Count(0, 4);
  cache.Put("", tokens, StateOf(tokens));
  EXPECT_EQ(cache.stats().states, 0);
}

TEST_F(PrefixCacheTest, ManyThreadsFindOnlyWhatBelongsToTheTokens) {
  std::vector<std::thread> threads;
  for (int32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int32_t i = 0; i < 500; ++i) {
        const int32_t from = (i * 7 + thread) % 9 * 100;
        if (i % 3 == 0) Put(Count(from, 1 + i % 5));
        Find(Count(from, 6));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache_.stats().hits, 0);
}

}  // namespace
}  // namespace fermata
