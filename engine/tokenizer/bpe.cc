#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/byte_level.h"

namespace fermata {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// The longest word for which a thread keeps its scratch memory.
constexpr size_t kKeptSymbols = 1 << 16;

// The two tokens of a merge, published as "a b" or as ["a", "b"].
absl::StatusOr<std::pair<std::string, std::string>> ParsePair(const JsonNode& merges, size_t i) {
  const nlohmann::json& value = merges.value()[i];
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return merges.Error("element " + std::to_string(i) + " is not a pair of tokens");
}

// A part of a word while it is merged: a list, linked by position.
struct Symbol {
  int32_t id = 0;  // -1 once merged into the one before.
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

absl::StatusOr<Bpe> Bpe::Parse(const JsonNode& node,
                               const absl::flat_hash_map<std::string, int32_t>& special) {
  FERMATA_RETURN_IF_ERROR(node.CheckObject());
  if (!node.Field("type").IsNull() || node.Field("merges").IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
    if (type != "BPE") return node.Error("the model " + Quoted(type) + " is not supported");
  }
  // Nothing is unknown where every byte has a token: unk_token, fuse_unk and byte_fallback have
  // nothing to act on.
  FERMATA_RETURN_IF_ERROR(node.OnlyFields(
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  const JsonNode dropout = node.Field("dropout");
  if (!dropout.IsNull() && dropout.value() != 0) return dropout.Error("dropout is not supported");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonNode affix = node.Field(name);
    if (!affix.IsNull() && affix.value() != "") return affix.Error("is not supported");
  }
  FERMATA_ASSIGN_OR_RETURN(const bool ignore_merges, node.Field("ignore_merges").Bool(false));

  Bpe bpe;
  FERMATA_RETURN_IF_ERROR(bpe.ParseVocab(node.Field("vocab")));
  FERMATA_RETURN_IF_ERROR(bpe.ParseBytes(node.Field("vocab")));
  FERMATA_RETURN_IF_ERROR(bpe.ParseMerges(node.Field("merges")));
  absl::flat_hash_set<int32_t> reachable(bpe.byte_ids_.begin(), bpe.byte_ids_.end());
  for (const auto& [pair, merge] : bpe.merges_) reachable.insert(merge.id);
  for (const auto& [token, id] : special) {
    if (reachable.contains(id)) {
      return node.Error("the special token " + Quoted(token) +
                        " is a byte or the result of a merge");
    }
  }
  bpe.FindWholeWords(ignore_merges, special);
  return bpe;
}

absl::Status Bpe::ParseVocab(const JsonNode& node) {
  FERMATA_RETURN_IF_ERROR(node.CheckObject());
  vocab_.reserve(node.value().size());
  absl::flat_hash_set<int32_t> ids;
  ids.reserve(node.value().size());
  for (const auto& [token, value] : node.value().items()) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id > kMaxTokenId)
      return node.Error("the id of " + Quoted(token) + " is not a token id");
    if (!ids.insert(static_cast<int32_t>(id)).second) {
      return node.Error("the id " + std::to_string(id) + " stands twice");
    }
    vocab_.emplace(token, static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status Bpe::ParseBytes(const JsonNode& vocab) {
  byte_ids_.fill(-1);
  for (const auto& [token, id] : vocab_) {
    if (token.size() > 2) continue;  // The alphabet's characters have one or two bytes.
    const std::optional<std::string> bytes = BytesOfToken(token);
    if (bytes.has_value() && bytes->size() == 1) byte_ids_[static_cast<uint8_t>((*bytes)[0])] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (in_utf8 && byte_ids_[byte] < 0) {
      return vocab.Error("has no token for the byte " + std::to_string(byte));
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::ParseMerges(const JsonNode& node) {
  if (!node.IsArray()) return node.Error("must be a list");
  merges_.reserve(node.value().size());
  for (size_t i = 0; i < node.value().size(); ++i) {
    FERMATA_ASSIGN_OR_RETURN(const auto pair, ParsePair(node, i));
    const auto left = vocab_.find(pair.first);
    const auto right = vocab_.find(pair.second);
    const auto merged = vocab_.find(pair.first + pair.second);
    if (left == vocab_.end() || right == vocab_.end() || merged == vocab_.end()) {
      return node.Error("element " + std::to_string(i) + " has a token that is not in the vocab");
    }
    const Merge merge{.rank = static_cast<int32_t>(i), .id = merged->second};
    if (!merges_.emplace(PairKey(left->second, right->second), merge).second) {
      return node.Error("element " + std::to_string(i) + " stands twice");
    }
  }
  return absl::OkStatus();
}

void Bpe::FindWholeWords(bool ignore_merges,
                         const absl::flat_hash_map<std::string, int32_t>& special) {
  whole_words_.reserve(vocab_.size());
  std::vector<int32_t> ids;
  for (const auto& [token, id] : vocab_) {
    if (special.contains(token)) continue;
    std::optional<std::string> bytes = BytesOfToken(token);
    if (!bytes.has_value() || bytes->empty() || Encodable(*bytes) != *bytes) continue;
    ids.clear();
    if (!ignore_merges) ApplyMerges(*bytes, ids);
    if (ignore_merges || (ids.size() == 1 && ids[0] == id)) {
      whole_words_.emplace(*std::move(bytes), id);
    }
  }
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::string Bpe::Encodable(std::string_view bytes) const {
  std::string result;
  for (const char c : bytes) {
    if (byte_ids_[static_cast<uint8_t>(c)] < 0) {
      result += kReplacementCharacter;
    } else {
      result += c;
    }
  }
  return result;
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  const auto whole = whole_words_.find(absl::string_view(word.data(), word.size()));
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
  } else {
    ApplyMerges(word, ids);
  }
}

void Bpe::ApplyMerges(std::string_view word, std::vector<int32_t>& ids) const {
  thread_local std::vector<Symbol> symbols;
  thread_local std::vector<PairAt> heap;
  const auto size = static_cast<int32_t>(word.size());
  symbols.resize(word.size());
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    symbols[i] = {.id = byte_ids_[static_cast<uint8_t>(word[i])],
                  .previous = i - 1,
                  .next = i + 1 < size ? i + 1 : -1};
  }
  const auto consider = [&](int32_t position) {
    if (position < 0 || symbols[position].next < 0) return;
    const int32_t left = symbols[position].id;
    const int32_t right = symbols[symbols[position].next].id;
    const Merge* merge = FindMerge(left, right);
    if (merge == nullptr) return;
    heap.push_back({.rank = merge->rank,
                    .position = position,
                    .left = left,
                    .right = right,
                    .merged = merge->id});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i < size; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const PairAt pair = heap.back();
    heap.pop_back();
    Symbol& symbol = symbols[pair.position];
    // An entry is out of date when either side has been merged meanwhile.
    if (symbol.id != pair.left || symbol.next < 0 || symbols[symbol.next].id != pair.right)
      continue;
    Symbol& absorbed = symbols[symbol.next];
    symbol.id = pair.merged;
    symbol.next = absorbed.next;
    absorbed.id = -1;
    if (symbol.next >= 0) symbols[symbol.next].previous = pair.position;
    consider(symbol.previous);
    consider(pair.position);
  }
  for (int32_t i = 0; i >= 0 && i < size; i = symbols[i].next) ids.push_back(symbols[i].id);
  if (symbols.capacity() > kKeptSymbols) {
    std::vector<Symbol>().swap(symbols);
    std::vector<PairAt>().swap(heap);
  }
}

}  // namespace fermata
