#ifndef FERMATA_ENGINE_TOKENIZER_BPE_MODEL_H_
#define FERMATA_ENGINE_TOKENIZER_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"

namespace fermata {

// Byte pair encoding as files have it, in their spelling of tokens. Whoever fills it checks ids;
// Add checks merges.
struct BpeTables {
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t merged = 0;
  };

  // The "model" of a tokenizer.json.
  static absl::StatusOr<BpeTables> Parse(const JsonNode& node);

  // Adds the merge of the next rank, whose three tokens must be in the vocabulary. The error says
  // why not.
  absl::Status AddMerge(std::string_view left, std::string_view right);
  // The same of "a b".
  absl::Status AddMerge(std::string_view pair);

  absl::flat_hash_map<std::string, int32_t> vocab;
  std::vector<Merge> merges;  // By rank.
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  std::optional<int32_t> unknown;

  // Of special tokens, which no text turns into by itself.
  absl::flat_hash_set<int32_t> special;

  // How errors begin.
  std::string vocab_name;
  std::string merges_name;

 private:
  absl::Status ParseVocab(const JsonNode& node);
  absl::Status ParseMerges(const JsonNode& node);
};

// What turns a word, across whose borders nothing is merged, into ids. Immutable and thread-safe.
class BpeModel {
 public:
  virtual ~BpeModel() = default;

  // Appends the ids of `word`, which must be UTF-8 and of less than 2 GiB. Takes O(n log n).
  virtual void Encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
  // Appends the ids of a run of bytes that are not UTF-8.
  virtual void EncodeInvalid(std::string_view bytes, std::vector<int32_t>& ids) const = 0;
  // The bytes that a token of the vocabulary stands for.
  virtual std::string BytesOf(std::string_view token) const = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_BPE_MODEL_H_
