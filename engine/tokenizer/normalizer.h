#ifndef FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_
#define FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"

namespace fermata {

// The "normalizer" of a tokenizer.json: null, NFC, NFD, NFKC, NFKD (Unicode annex 15) or a Sequence
// of these. Immutable and thread-safe.
class Normalizer {
 public:
  static absl::StatusOr<Normalizer> Parse(const JsonNode& node);

  // Whether it changes no text.
  bool empty() const { return forms_.empty(); }
  // `text` must be UTF-8; so is the result. Takes O(n log n), also for long runs of marks.
  std::string Normalize(std::string_view text) const;

 private:
  std::vector<int> forms_;  // utf8proc's options of each, in order.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_NORMALIZER_H_
