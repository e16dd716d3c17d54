#ifndef FERMATA_ENGINE_TOKENIZER_PIECE_BPE_H_
#define FERMATA_ENGINE_TOKENIZER_PIECE_BPE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/bpe_merges.h"
#include "engine/tokenizer/bpe_model.h"

namespace fermata {

// The pieces of a SentencePiece model of the type BPE.
struct ScoredPieces {
  std::vector<std::string> pieces;  // By id; empty for those that text is not made of.
  std::vector<float> scores;        // By id.
  std::array<int32_t, 256> bytes;   // Their ids; -1 for those that have no piece.
  std::optional<int32_t> unknown;
  std::string source;  // How errors begin.
};

// Byte pair encoding over characters, with the bytes of those that have no token (Llama, Mistral:
// SentencePiece, Kudo and Richardson, arXiv:1808.06226, and its form in a tokenizer.json).
//
// A text may be one long word. It is cut where no merge can reach across: between two characters
// that no merge's parts meet with. That changes no id, and leaves short words, most of which are
// found whole.
class PieceBpe : public BpeModel {
 public:
  // From a tokenizer.json: bytes are the tokens <0x00> to <0xFF>, if byte_fallback is set. Every
  // byte must have a token, or else there must be an unknown token.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(const BpeTables& tables);
  // SentencePiece's rule: two neighbours merge when what they make is a piece, the highest score
  // first, then the leftmost.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(const ScoredPieces& pieces);

  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;
  void EncodeInvalid(std::string_view bytes, std::vector<int32_t>& ids) const override;
  std::string BytesOf(std::string_view token) const override;

 private:
  // A character as its UTF-8 bytes in one number.
  using Char = uint32_t;

  static Char FirstChar(std::string_view text, size_t& length);
  static std::string_view LastCharacter(std::string_view text);
  static int SmallIndex(Char c);

  absl::Status CheckFallback(const std::string& source) const;
  void AddChar(std::string_view character, int32_t symbol);
  // Gives a character that is no piece a symbol, if it has none.
  void AddUnspelled(std::string_view character);
  // All merges of two symbols that make the piece `id`.
  void AddSplits(const ScoredPieces& pieces, int32_t id, int32_t rank,
                 const absl::flat_hash_map<std::string_view, int32_t>& symbols);
  void AddMeeting(std::string_view left, std::string_view right);
  bool Meet(Char left, Char right) const;
  void FindWholeWord(std::string_view piece, int32_t id);

  // Of a word that is not cut any more.
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids) const;
  bool Merged(std::string_view word, std::vector<int32_t>& symbols) const;
  void FallBack(std::string_view bytes, std::vector<int32_t>& ids) const;

  BpeMerges merges_;
  absl::flat_hash_map<Char, int32_t> symbol_of_;
  // Symbols from here on are characters that stand in pieces and are none themselves.
  int32_t first_unspelled_ = 0;
  std::vector<std::string> unspelled_;
  // The pairs of characters that a merge's parts meet with; those of ASCII and U+2581 apart.
  static constexpr int kSmall = 129;
  std::bitset<kSmall * kSmall> small_meetings_;
  absl::flat_hash_set<uint64_t> meetings_;
  // The words that their merges turn into one token.
  absl::flat_hash_map<std::string, int32_t> whole_words_;
  // With ignore_merges: texts that are tokens are so whatever the merges say.
  absl::flat_hash_map<std::string, int32_t> whole_texts_;
  std::array<int32_t, 256> byte_ids_{};  // -1: none.
  std::optional<int32_t> unknown_;
  bool fuse_unknown_ = false;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_PIECE_BPE_H_
