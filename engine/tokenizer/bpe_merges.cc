#include "engine/tokenizer/bpe_merges.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace fermata {
namespace {

// Up to here, looking through all pairs at each merge is faster than keeping a heap of them.
constexpr size_t kShort = 24;

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A part of a word while it is merged: a list, linked by position.
struct Link {
  int32_t symbol = 0;  // -1 once merged into the one before.
  int32_t previous = -1;
  int32_t next = -1;
};

// A pair that may be merged: the lowest rank first, then the leftmost.
struct PairAt {
  int32_t rank = 0;
  int32_t position = 0;
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  friend bool operator>(const PairAt& a, const PairAt& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

}  // namespace

bool BpeMerges::Add(int32_t left, int32_t right, Merge merge) {
  return merges_.emplace(PairKey(left, right), merge).second;
}

const BpeMerges::Merge* BpeMerges::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeMerges::Apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kShort) {
    ApplyToShort(symbols);
  } else {
    ApplyToLong(symbols);
  }
}

void BpeMerges::ApplyToShort(std::vector<int32_t>& symbols) const {
  constexpr Merge kNone = {.rank = std::numeric_limits<int32_t>::max(), .merged = -1};
  std::array<Merge, kShort> merges;  // Of each symbol with the next.
  size_t size = symbols.size();
  const auto look_up = [&](size_t i) {
    const Merge* merge = Find(symbols[i], symbols[i + 1]);
    merges[i] = merge == nullptr ? kNone : *merge;
  };
  for (size_t i = 0; i + 1 < size; ++i) look_up(i);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].merged < 0) break;
    symbols[best] = merges[best].merged;
    for (size_t i = best + 1; i + 1 < size; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --size;
    if (best > 0) look_up(best - 1);
    if (best + 1 < size) look_up(best);
  }
  symbols.resize(size);
}

void BpeMerges::ApplyToLong(std::vector<int32_t>& symbols) const {
  thread_local std::vector<Link> links;
  thread_local std::vector<PairAt> heap;
  const auto size = static_cast<int32_t>(symbols.size());
  links.resize(symbols.size());
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    links[i] = {.symbol = symbols[i], .previous = i - 1, .next = i + 1 < size ? i + 1 : -1};
  }
  const auto consider = [&](int32_t position) {
    if (position < 0 || links[position].next < 0) return;
    const int32_t left = links[position].symbol;
    const int32_t right = links[links[position].next].symbol;
    const Merge* merge = Find(left, right);
    if (merge == nullptr) return;
    heap.push_back({.rank = merge->rank,
                    .position = position,
                    .left = left,
                    .right = right,
                    .merged = merge->merged});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i < size; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const PairAt pair = heap.back();
    heap.pop_back();
    Link& link = links[pair.position];
    // An entry is out of date when either side has been merged meanwhile.
    if (link.symbol != pair.left || link.next < 0 || links[link.next].symbol != pair.right) {
      continue;
    }
    Link& absorbed = links[link.next];
    link.symbol = pair.merged;
    link.next = absorbed.next;
    absorbed.symbol = -1;
    if (link.next >= 0) links[link.next].previous = pair.position;
    consider(link.previous);
    consider(pair.position);
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0 && i < size; i = links[i].next) symbols.push_back(links[i].symbol);
  if (links.capacity() > kKeptSymbols) {
    std::vector<Link>().swap(links);
    std::vector<PairAt>().swap(heap);
  }
}

}  // namespace fermata
