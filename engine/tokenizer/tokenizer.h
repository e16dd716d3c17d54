#ifndef FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

struct TokenizerConfig;
struct TokenizerData;

// Where a text stands in its sequence. SentencePiece and its like put a space before a text, so
// that its first word is spelled as words behind a space are, and take it off when they decode:
// right for the text that a sequence begins with, and wrong for one that goes on.
enum class TextPlace { kStart, kContinuation };

// Text to token ids and back. Immutable and thread-safe once loaded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Loads the tokenizer of a model: of a directory, or of one file of weights, which is a GGUF that
  // carries it or has the tokenizer's files beside it. The first that is there counts:
  //   tokenizer.json             byte-level BPE, or BPE with byte fallback (Llama, Mistral)
  //   tokenizer.model            SentencePiece BPE
  //   rwkv_vocab_v20230424.txt   RWKV World; also as vocab.txt
  //   the only *.gguf            what it carries
  //   none, and `vocab_size` is 256: one token a byte
  // tokenizer_config.json beside them adds special tokens and the BOS. INVALID_ARGUMENT that names
  // file and field or line when a file is broken, of an unknown kind, or has ids of `vocab_size` or
  // more.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path,
                                                         int64_t vocab_size);

  // The tokenizer that a GGUF file carries.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromData(const TokenizerData& data,
                                                             int64_t vocab_size);

  // What kind it is: "byte", "bpe", "sentencepiece" or "rwkv".
  virtual std::string_view kind() const = 0;
  // One more than the largest id.
  virtual int64_t vocab_size() const = 0;

  // The ids of `text`, which may be any bytes. Text that spells a special token becomes that token
  // when `parse_special` is set, and is ordinary text otherwise. No BOS is added.
  std::vector<int32_t> Encode(std::string_view text, bool parse_special,
                              TextPlace place = TextPlace::kStart) const {
    return DoEncode(text, parse_special, place);
  }

  // What the tokenizer's authors put before a sequence's first text: the BOS, or nothing. The
  // caller's to add.
  const std::vector<int32_t>& start_ids() const { return start_ids_; }

  // The bytes that a token stands for, which may be part of a character. Empty for ids that stand
  // for none. Valid for the tokenizer's life.
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // Whether the id is a special token, whose bytes are not part of generated text.
  virtual bool IsSpecial(int32_t id) const = 0;
  // Whether a text that begins with a space loses it at a sequence's start: Encode put it there.
  virtual bool StripsSpaceAtStart() const { return false; }

  // The text of `ids`: their bytes joined, special tokens kept when `keep_special` is set, bytes
  // that are not UTF-8 replaced by U+FFFD (one for each maximal subpart, Unicode 15, 3.9).
  std::string Decode(const std::vector<int32_t>& ids, bool keep_special,
                     TextPlace place = TextPlace::kStart) const;

 protected:
  void set_start_ids(std::vector<int32_t> ids) { start_ids_ = std::move(ids); }

 private:
  virtual std::vector<int32_t> DoEncode(std::string_view text, bool parse_special,
                                        TextPlace place) const = 0;
  static absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGguf(const std::string& path,
                                                             int64_t vocab_size);
  // Error unless all ids are below `model_vocab_size`. `source` names the file.
  absl::Status CheckSize(int64_t model_vocab_size, const std::string& source) const;
  // What `config` says of the BOS in place of what the tokenizer's own file says.
  absl::Status SetStartIds(const TokenizerConfig& config, const std::string& source);

  std::vector<int32_t> start_ids_;
};

// Turns a stream of tokens into a stream of text of whole characters: the texts of a stream,
// joined, are the text of the whole. What a model generates goes on from its prompt, so that is the
// default place.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer,
                              TextPlace place = TextPlace::kContinuation)
      : tokenizer_(&tokenizer),
        strip_space_(place == TextPlace::kStart && tokenizer.StripsSpaceAtStart()) {}

  // The text that `id` completes; what may still become a character is held back.
  std::string Append(int32_t id);
  // What was held back, with U+FFFD for what never became a character.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool strip_space_;  // Nothing has come yet, and a space in front is to be taken off.
  std::string held_;  // The beginning of a character: at most 3 bytes.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_TOKENIZER_H_
