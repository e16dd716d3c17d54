#ifndef FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

// Text to token ids and back. Immutable and thread-safe once loaded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Loads the tokenizer files of a model's directory: tokenizer.json, or, where a directory has no
  // tokenizer file and `vocab_size` is 256, the byte-level one. INVALID_ARGUMENT that names file
  // and field when a file is broken, of an unknown kind, or has ids of `vocab_size` or more.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& directory,
                                                         int64_t vocab_size);

  // What kind it is, e.g. "byte" or "bpe".
  virtual std::string_view kind() const = 0;
  // One more than the largest id.
  virtual int64_t vocab_size() const = 0;

  // The ids of `text`, which may be any bytes. Text that spells a special token becomes that token
  // when `parse_special` is set, and is ordinary text otherwise.
  virtual std::vector<int32_t> Encode(std::string_view text, bool parse_special) const = 0;

  // The bytes that a token stands for, which may be part of a character. Empty for ids that stand
  // for none. Valid for the tokenizer's life.
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // Whether the id is a special token, whose bytes are not part of generated text.
  virtual bool IsSpecial(int32_t id) const = 0;

  // The text of `ids`: their bytes joined, special tokens kept when `keep_special` is set, bytes
  // that are not UTF-8 replaced by U+FFFD (one for each maximal subpart, Unicode 15, 3.9).
  std::string Decode(const std::vector<int32_t>& ids, bool keep_special) const;
};

// Turns a stream of tokens into a stream of text of whole characters: the texts of a stream,
// joined, are the text of the whole.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text that `id` completes; what may still become a character is held back.
  std::string Append(int32_t id);
  // What was held back, with U+FFFD for what never became a character.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;  // The beginning of a character: at most 3 bytes.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_
