// Finds the tokenizer files of a model's directory.

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/mapped_file.h"
#include "engine/base/status.h"
#include "engine/formats/gguf.h"
#include "engine/formats/only_file.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/byte_tokenizer.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/tokenizer/rwkv_tokenizer.h"
#include "engine/tokenizer/sentencepiece_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_config.h"

namespace fermata {
namespace {

using TokenizerOr = absl::StatusOr<std::unique_ptr<Tokenizer>>;

// A file as it was read.
struct File {
  std::string path;
  std::string text;
  int64_t vocab_size = 0;  // Of the model.
};

TokenizerOr LoadJson(const File& file, const TokenizerConfig&) {
  return BpeTokenizer::Parse(file.text, file.path, file.vocab_size);
}

TokenizerOr LoadSentencePiece(const File& file, const TokenizerConfig& config) {
  FERMATA_ASSIGN_OR_RETURN(TokenizerData data, ReadSentencePieceModel(file.text, file.path));
  data.added = config.added;
  // That library seeks them in the text as it is, whatever they say.
  for (AddedToken& token : data.added) token.normalized = false;
  return Tokenizer::FromData(data, file.vocab_size);
}

TokenizerOr LoadRwkv(const File& file, const TokenizerConfig& config) {
  return RwkvTokenizer::Parse(file.text, file.path, file.vocab_size, config.added);
}

// A vocabulary by this name may be of many kinds.
TokenizerOr LoadVocabTxt(const File& file, const TokenizerConfig& config) {
  if (RwkvTokenizer::LooksRight(file.text)) return LoadRwkv(file, config);
  return absl::InvalidArgumentError(
      file.path +
      ": line 1: is not of an RWKV World vocabulary, and other kinds are not supported");
}

TokenizerOr Refuse(const File& file, const TokenizerConfig&) {
  return absl::InvalidArgumentError(file.path + ": tokenizer files of this kind are not supported");
}

struct FileKind {
  const char* name;
  TokenizerOr (*load)(const File& file, const TokenizerConfig& config);
};

// A file that is there but can not be read must not turn into bytes in silence.
constexpr std::array kFileKinds = {
    FileKind{"tokenizer.json", LoadJson},
    FileKind{"tokenizer.model", LoadSentencePiece},
    FileKind{"rwkv_vocab_v20230424.txt", LoadRwkv},
    FileKind{"vocab.txt", LoadVocabTxt},
    FileKind{"vocab.json", Refuse},
    FileKind{"merges.txt", Refuse},
    FileKind{"rwkv_vocab_v20230424.json", Refuse},
};

constexpr char kGguf[] = ".gguf";

bool IsGguf(const std::string& path) { return std::filesystem::path(path).extension() == kGguf; }

}  // namespace

TokenizerOr Tokenizer::Load(const std::string& path, int64_t vocab_size) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(path, error);
  if (!is_directory && IsGguf(path)) return LoadGguf(path, vocab_size);
  const std::string directory =
      is_directory ? path : std::filesystem::path(path).parent_path().string();
  for (const FileKind& kind : kFileKinds) {
    File file{.path = directory + "/" + kind.name, .text = {}, .vocab_size = vocab_size};
    if (!std::filesystem::exists(file.path, error)) continue;
    FERMATA_ASSIGN_OR_RETURN(file.text, ReadFile(file.path));
    const std::string config_path = directory + "/tokenizer_config.json";
    FERMATA_ASSIGN_OR_RETURN(const auto config, TokenizerConfig::Load(config_path, vocab_size));
    FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, kind.load(file, config));
    FERMATA_RETURN_IF_ERROR(tokenizer->CheckSize(vocab_size, file.path));
    FERMATA_RETURN_IF_ERROR(tokenizer->SetStartIds(config, config_path));
    return tokenizer;
  }
  if (is_directory) {
    FERMATA_ASSIGN_OR_RETURN(const std::string gguf, OnlyFile(directory, kGguf));
    if (!gguf.empty()) return LoadGguf(directory + "/" + gguf, vocab_size);
  }
  if (vocab_size == 256) return std::make_unique<ByteTokenizer>();
  return absl::InvalidArgumentError(directory + "/tokenizer.json: no such file (and a model of " +
                                    std::to_string(vocab_size) +
                                    " tokens is not a byte-level one, which has 256)");
}

TokenizerOr Tokenizer::LoadGguf(const std::string& path, int64_t vocab_size) {
  FERMATA_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  FERMATA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Parse(mapped.bytes(), path));
  FERMATA_ASSIGN_OR_RETURN(const TokenizerData data, ReadTokenizerData(file));
  FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, FromData(data, vocab_size));
  FERMATA_RETURN_IF_ERROR(tokenizer->CheckSize(vocab_size, path));
  return tokenizer;
}

absl::Status Tokenizer::CheckSize(int64_t model_vocab_size, const std::string& source) const {
  if (vocab_size() <= model_vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(source + ": has ids up to " + std::to_string(vocab_size() - 1) +
                                    ", but the model has " + std::to_string(model_vocab_size) +
                                    " tokens");
}

absl::Status Tokenizer::SetStartIds(const TokenizerConfig& config, const std::string& source) {
  if (config.add_bos == false) start_ids_.clear();
  if (config.add_bos != true || !start_ids_.empty()) return absl::OkStatus();
  if (!config.bos.has_value()) {
    return absl::InvalidArgumentError(source + ": bos_token: must be there for add_bos_token");
  }
  for (int64_t id = 0; id < vocab_size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (IsSpecial(token) && TokenBytes(token) == *config.bos) {
      start_ids_ = {token};
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(source + ": bos_token: " + Quoted(*config.bos) +
                                    " is not a special token");
}

}  // namespace fermata
