#include "engine/tokenizer/tokenizer.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "engine/base/mapped_file.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/byte_tokenizer.h"

namespace fermata {
namespace {

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& directory,
                                                           int64_t vocab_size) {
  const std::string path = directory + "/tokenizer.json";
  if (Exists(path)) {
    FERMATA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, BpeTokenizer::Parse(text, path));
    if (tokenizer->vocab_size() > vocab_size) {
      return absl::InvalidArgumentError(
          path + ": has ids up to " + std::to_string(tokenizer->vocab_size() - 1) +
          ", but the model has " + std::to_string(vocab_size) + " tokens");
    }
    return tokenizer;
  }
  // A file that is there but can not be read must not turn into bytes in silence.
  for (const char* name : {"tokenizer.model", "vocab.json", "merges.txt", "vocab.txt",
                           "rwkv_vocab_v20230424.txt", "rwkv_vocab_v20230424.json"}) {
    const std::string other = directory + "/" + name;
    if (Exists(other)) {
      return absl::InvalidArgumentError(other + ": tokenizer files of this kind are not supported");
    }
  }
  if (vocab_size == 256) return std::make_unique<ByteTokenizer>();
  return absl::InvalidArgumentError(path + ": no such file (and a model of " +
                                    std::to_string(vocab_size) +
                                    " tokens is not a byte-level one, which has 256)");
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids, bool keep_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (keep_special || !IsSpecial(id)) bytes += TokenBytes(id);
  }
  std::string text;
  DrainUtf8(bytes, text);
  if (!bytes.empty()) text += kReplacementCharacter;
  return text;
}

std::string IncrementalDecoder::Append(int32_t id) {
  if (tokenizer_->IsSpecial(id)) return {};
  held_ += tokenizer_->TokenBytes(id);
  std::string text;
  DrainUtf8(held_, text);
  return text;
}

std::string IncrementalDecoder::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace fermata
