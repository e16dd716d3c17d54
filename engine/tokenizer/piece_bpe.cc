#include "engine/tokenizer/piece_bpe.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/pieces.h"

namespace fermata {
namespace {

// Longer pieces, of which there are none, would make loading quadratic in them.
constexpr size_t kMaxPieceBytes = 1024;

}  // namespace

// `text` must be UTF-8 and not empty.
PieceBpe::Char PieceBpe::FirstChar(std::string_view text, size_t& length) {
  const auto lead = static_cast<uint8_t>(text[0]);
  length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  Char c = lead;
  for (size_t i = 1; i < length; ++i) c = c << 8 | static_cast<uint8_t>(text[i]);
  return c;
}

std::string_view PieceBpe::LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return text.substr(at);
}

// ASCII and U+2581, the most of most texts, or -1.
int PieceBpe::SmallIndex(Char c) {
  if (c < 0x80) return static_cast<int>(c);
  return c == 0xE29681 ? 0x80 : -1;
}

absl::StatusOr<std::unique_ptr<BpeModel>> PieceBpe::Create(const BpeTables& tables) {
  auto bpe = std::make_unique<PieceBpe>();
  bpe->byte_ids_.fill(-1);
  bpe->unknown_ = tables.unknown;
  bpe->fuse_unknown_ = tables.fuse_unknown;
  std::vector<std::string_view> token_of;
  for (const auto& [token, id] : tables.vocab) {
    if (token_of.size() <= static_cast<size_t>(id)) token_of.resize(id + 1);
    token_of[id] = token;
    if (token.empty() || !IsUtf8(token)) continue;
    const std::optional<uint8_t> byte = ByteOfPiece(token);
    if (tables.byte_fallback && byte.has_value()) bpe->byte_ids_[*byte] = id;
    size_t length = 0;
    FirstChar(token, length);
    if (length == token.size()) bpe->AddChar(token, id);
    if (tables.ignore_merges && !tables.special.contains(id)) bpe->whole_texts_.emplace(token, id);
  }
  FERMATA_RETURN_IF_ERROR(bpe->CheckFallback(tables.vocab_name));
  bpe->first_unspelled_ = static_cast<int32_t>(token_of.size());
  bpe->merges_.Reserve(tables.merges.size());
  for (size_t i = 0; i < tables.merges.size(); ++i) {
    const auto& [left, right, merged] = tables.merges[i];
    std::string why;
    if (tables.special.contains(merged)) {
      why = " makes a special token";
    } else if (!bpe->merges_.Add(left, right,
                                 {.rank = static_cast<int32_t>(i), .merged = merged})) {
      why = " stands twice";
    } else if (token_of[left].empty() || token_of[right].empty() || !IsUtf8(token_of[left]) ||
               !IsUtf8(token_of[right])) {
      why = " has a token that is empty or not UTF-8";
    }
    if (!why.empty()) {
      return absl::InvalidArgumentError(tables.merges_name + ": element " + std::to_string(i) +
                                        why);
    }
    bpe->AddMeeting(token_of[left], token_of[right]);
    // What meets needs a symbol, even if it merges with nothing.
    size_t length = 0;
    FirstChar(token_of[right], length);
    bpe->AddUnspelled(token_of[right].substr(0, length));
    bpe->AddUnspelled(LastCharacter(token_of[left]));
  }
  for (const auto& [token, id] : tables.vocab) bpe->FindWholeWord(token, id);
  return bpe;
}

absl::StatusOr<std::unique_ptr<BpeModel>> PieceBpe::Create(const ScoredPieces& pieces) {
  auto bpe = std::make_unique<PieceBpe>();
  bpe->byte_ids_ = pieces.bytes;
  bpe->unknown_ = pieces.unknown;
  bpe->fuse_unknown_ = true;
  FERMATA_RETURN_IF_ERROR(bpe->CheckFallback(pieces.source));
  bpe->first_unspelled_ = static_cast<int32_t>(pieces.pieces.size());
  absl::flat_hash_map<std::string_view, int32_t> symbols;
  std::vector<int32_t> by_score;
  for (size_t id = 0; id < pieces.pieces.size(); ++id) {
    const std::string& piece = pieces.pieces[id];
    if (piece.empty()) continue;
    const auto fail = [&](std::string_view why) {
      return absl::InvalidArgumentError(pieces.source + ": the piece " + std::to_string(id) + ", " +
                                        Quoted(piece) + ", " + std::string(why));
    };
    if (piece.size() > kMaxPieceBytes) return fail("is too long");
    if (!IsUtf8(piece)) return fail("is not UTF-8");
    if (!symbols.emplace(piece, static_cast<int32_t>(id)).second) return fail("stands twice");
    by_score.push_back(static_cast<int32_t>(id));
    size_t length = 0;
    FirstChar(piece, length);
    if (length == piece.size()) bpe->AddChar(piece, static_cast<int32_t>(id));
  }
  for (const int32_t id : by_score) {
    std::string_view rest = pieces.pieces[id];
    while (!rest.empty()) {
      size_t length = 0;
      FirstChar(rest, length);
      bpe->AddUnspelled(rest.substr(0, length));
      symbols.emplace(rest.substr(0, length), bpe->symbol_of_.at(FirstChar(rest, length)));
      rest.remove_prefix(length);
    }
  }
  const auto score = [&](int32_t id) { return pieces.scores[id]; };
  std::stable_sort(by_score.begin(), by_score.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  int32_t rank = 0;
  for (size_t i = 0; i < by_score.size(); ++i) {
    if (i > 0 && score(by_score[i]) != score(by_score[i - 1])) ++rank;
    bpe->AddSplits(pieces, by_score[i], rank, symbols);
  }
  for (const int32_t id : by_score) bpe->FindWholeWord(pieces.pieces[id], id);
  return bpe;
}

absl::Status PieceBpe::CheckFallback(const std::string& source) const {
  const auto missing = std::find(byte_ids_.begin(), byte_ids_.end(), -1);
  if (missing == byte_ids_.end() || unknown_.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(source + ": has no token for the byte " +
                                    std::to_string(missing - byte_ids_.begin()) +
                                    " and none for the unknown");
}

void PieceBpe::AddChar(std::string_view character, int32_t symbol) {
  size_t length = 0;
  symbol_of_.emplace(FirstChar(character, length), symbol);
}

void PieceBpe::AddUnspelled(std::string_view character) {
  size_t length = 0;
  const auto symbol = first_unspelled_ + static_cast<int32_t>(unspelled_.size());
  if (symbol_of_.emplace(FirstChar(character, length), symbol).second) {
    unspelled_.emplace_back(character);
  }
}

void PieceBpe::AddSplits(const ScoredPieces& pieces, int32_t id, int32_t rank,
                         const absl::flat_hash_map<std::string_view, int32_t>& symbols) {
  const std::string_view piece = pieces.pieces[id];
  for (size_t at = 1; at < piece.size(); ++at) {
    if ((piece[at] & 0xC0) == 0x80) continue;
    const auto left = symbols.find(piece.substr(0, at));
    const auto right = symbols.find(piece.substr(at));
    if (left == symbols.end() || right == symbols.end()) continue;
    merges_.Add(left->second, right->second, {.rank = rank, .merged = id});
    AddMeeting(left->first, right->first);
  }
}

void PieceBpe::AddMeeting(std::string_view left, std::string_view right) {
  size_t length = 0;
  const Char last = FirstChar(LastCharacter(left), length);
  const Char first = FirstChar(right, length);
  const int a = SmallIndex(last);
  const int b = SmallIndex(first);
  if (a >= 0 && b >= 0) {
    small_meetings_.set(a * kSmall + b);
  } else {
    meetings_.insert(uint64_t{last} << 32 | first);
  }
}

bool PieceBpe::Meet(Char left, Char right) const {
  const int a = SmallIndex(left);
  const int b = SmallIndex(right);
  if (a >= 0 && b >= 0) return small_meetings_[a * kSmall + b];
  return meetings_.contains(uint64_t{left} << 32 | right);
}

void PieceBpe::FindWholeWord(std::string_view piece, int32_t id) {
  std::vector<int32_t> symbols;
  if (!piece.empty() && IsUtf8(piece) && Merged(piece, symbols) && symbols.size() == 1 &&
      symbols[0] == id) {
    whole_words_.emplace(piece, id);
  }
}

void PieceBpe::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (!whole_texts_.empty()) {
    const auto whole = whole_texts_.find(absl::string_view(word.data(), word.size()));
    if (whole != whole_texts_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  size_t begin = 0;
  Char previous = 0;
  for (size_t at = 0; at < word.size();) {
    size_t length = 0;
    const Char c = FirstChar(word.substr(at), length);
    if (at > begin && !Meet(previous, c)) {
      EncodeWord(word.substr(begin, at - begin), ids);
      begin = at;
    }
    previous = c;
    at += length;
  }
  if (begin < word.size()) EncodeWord(word.substr(begin), ids);
}

void PieceBpe::EncodeWord(std::string_view word, std::vector<int32_t>& ids) const {
  const auto whole = whole_words_.find(absl::string_view(word.data(), word.size()));
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  thread_local std::vector<int32_t> symbols;
  // A character without a symbol meets with none, and is a word by itself.
  if (!Merged(word, symbols)) {
    FallBack(word, ids);
    return;
  }
  for (const int32_t symbol : symbols) {
    if (symbol < first_unspelled_) {
      ids.push_back(symbol);
    } else {
      FallBack(unspelled_[symbol - first_unspelled_], ids);
    }
  }
  if (symbols.capacity() > kKeptSymbols) std::vector<int32_t>().swap(symbols);
}

// False when a character has no symbol.
bool PieceBpe::Merged(std::string_view word, std::vector<int32_t>& symbols) const {
  symbols.clear();
  while (!word.empty()) {
    size_t length = 0;
    const auto symbol = symbol_of_.find(FirstChar(word, length));
    if (symbol == symbol_of_.end()) return false;
    symbols.push_back(symbol->second);
    word.remove_prefix(length);
  }
  merges_.Apply(symbols);
  return true;
}

// The bytes of a character, or the unknown token when one of them has none.
void PieceBpe::FallBack(std::string_view bytes, std::vector<int32_t>& ids) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (std::all_of(bytes.begin(), bytes.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : bytes) ids.push_back(id_of(c));
  } else if (!fuse_unknown_ || ids.empty() || ids.back() != *unknown_) {
    ids.push_back(*unknown_);
  }
}

void PieceBpe::EncodeInvalid(std::string_view bytes, std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < bytes.size(); ++i) FallBack(bytes.substr(i, 1), ids);
}

std::string PieceBpe::BytesOf(std::string_view token) const {
  const std::optional<uint8_t> byte = ByteOfPiece(token);
  if (byte.has_value() && byte_ids_[*byte] >= 0) return std::string(1, static_cast<char>(*byte));
  return PiecesToSpaces(token);
}

}  // namespace fermata
