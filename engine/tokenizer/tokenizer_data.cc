#include "engine/tokenizer/tokenizer_data.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/byte_bpe.h"
#include "engine/tokenizer/piece_bpe.h"
#include "engine/tokenizer/pieces.h"
#include "engine/tokenizer/python_literal.h"
#include "engine/tokenizer/rwkv_tokenizer.h"

namespace fermata {
namespace {

using TokenizerOr = absl::StatusOr<std::unique_ptr<Tokenizer>>;

absl::Status Error(const TokenizerData& data, const std::string& why) {
  return absl::InvalidArgumentError(data.source + ": " + why);
}

absl::Status TokenError(const TokenizerData& data, size_t id, const std::string& why) {
  return Error(data,
               "the token " + std::to_string(id) + ", " + Quoted(data.tokens[id]) + ", " + why);
}

int32_t TypeOf(const TokenizerData& data, size_t id) {
  return data.types.empty() ? kNormalToken : data.types[id];
}

absl::Status CheckData(const TokenizerData& data) {
  const auto size = static_cast<int64_t>(data.tokens.size());
  if (size == 0) return Error(data, "has no tokens");
  if (!data.types.empty() && data.types.size() != data.tokens.size()) {
    return Error(data, "has " + std::to_string(data.types.size()) + " token types for " +
                           std::to_string(size) + " tokens");
  }
  for (const int32_t type : data.types) {
    if (type < kNormalToken || type > kByteToken) {
      return Error(data, "has the token type " + std::to_string(type) + ", which is not known");
    }
  }
  for (const AddedToken& token : data.added) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= data.tokens.size() || data.tokens[id].empty()) continue;
    if (data.tokens[id] != token.content && PiecesToSpaces(data.tokens[id]) != token.content) {
      return TokenError(data, id, "is another than the added " + Quoted(token.content));
    }
  }
  for (const auto& id : {data.bos, data.unknown}) {
    if (id.has_value() && (*id < 0 || *id >= size)) {
      return Error(data, "the special token id " + std::to_string(*id) + " is none of a token");
    }
  }
  return absl::OkStatus();
}

// How a pre-tokenizer's name, as the converters of llama.cpp write it, cuts words.
struct Cuts {
  std::string_view name;
  std::string_view pattern;  // Empty: GPT-2's.
  bool llama3 = false;       // Takes whole tokens before merges, and begins with a BOS.
};

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array kCuts = {
    Cuts{"gpt-2", ""},
    Cuts{"mpt", ""},  // GPT-NeoX, also of Mamba.
    Cuts{"olmo", ""},
    Cuts{"phi-2", ""},
    Cuts{"llama-bpe", kLlama3Pattern, true},
    Cuts{"llama3", kLlama3Pattern, true},
    Cuts{"llama-v3", kLlama3Pattern, true},
    Cuts{"dbrx", kLlama3Pattern},
    Cuts{"smaug-bpe", kLlama3Pattern},
    Cuts{"qwen2", kQwen2Pattern},
    Cuts{"deepseek-r1-qwen", kQwen2Pattern},
    Cuts{"megrez", kQwen2Pattern},
    Cuts{"stablelm2", kQwen2Pattern},
};

const Cuts* FindCuts(std::string_view name) {
  const auto found = std::find_if(kCuts.begin(), kCuts.end(),
                                  [&](const Cuts& known) { return known.name == name; });
  return found == kCuts.end() ? nullptr : &*found;
}

// The tokens that are cut out of the text: control and user-defined ones, and those added.
std::vector<AddedToken> AddedOf(const TokenizerData& data, bool pieces) {
  std::vector<AddedToken> added = data.added;
  absl::flat_hash_set<int32_t> ids;
  for (const AddedToken& token : added) ids.insert(token.id);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const int32_t type = TypeOf(data, id);
    const bool user_defined = type == kUserDefinedToken;
    if (data.tokens[id].empty() || ids.contains(static_cast<int32_t>(id))) continue;
    if (!user_defined && type != kControlToken && type != kUnknownToken) continue;
    AddedToken token{.id = static_cast<int32_t>(id), .content = data.tokens[id]};
    token.special = !user_defined;
    if (pieces) {
      // SentencePiece seeks user-defined pieces where the spaces are U+2581 already.
      token.content = PiecesToSpaces(data.tokens[id]);
      token.normalized = user_defined;
      token.sought = data.tokens[id];
    }
    added.push_back(std::move(token));
  }
  return added;
}

// The tokens' spellings, without those that stand for nothing.
std::vector<std::string> Spellings(const TokenizerData& data) {
  std::vector<std::string> tokens = data.tokens;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (TypeOf(data, id) == kUnusedToken) tokens[id].clear();
  }
  return tokens;
}

TokenizerOr FromRwkv(const TokenizerData& data) {
  std::vector<std::string> tokens(data.tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (TypeOf(data, id) != kNormalToken) continue;
    auto bytes = UnescapePython(data.tokens[id], /*is_string=*/false);
    if (!bytes.ok()) return TokenError(data, id, std::string(bytes.status().message()));
    tokens[id] = *std::move(bytes);
  }
  return RwkvTokenizer::Create(std::move(tokens), AddedOf(data, /*pieces=*/false), data.source);
}

absl::StatusOr<BpeTables> TablesOf(const TokenizerData& data) {
  BpeTables tables;
  tables.vocab_name = data.source + ": tokens";
  tables.merges_name = data.source + ": merges";
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const int32_t type = TypeOf(data, id);
    if (type == kUnusedToken) continue;
    const auto [found, added] = tables.vocab.emplace(data.tokens[id], static_cast<int32_t>(id));
    if (!added)
      return TokenError(data, id, "is the token " + std::to_string(found->second) + " too");
    if (type == kControlToken || type == kUnknownToken) {
      tables.special.insert(static_cast<int32_t>(id));
    }
  }
  for (const std::string& merge : data.merges) {
    if (const absl::Status added = tables.AddMerge(merge); !added.ok()) {
      return Error(data, "merges: element " + std::to_string(tables.merges.size()) + " " +
                             std::string(added.message()));
    }
  }
  return tables;
}

TokenizerOr FromGpt2(const TokenizerData& data) {
  const Cuts* cuts = FindCuts(data.pre);
  if (cuts == nullptr) {
    return Error(data, "the pre-tokenizer " + Quoted(data.pre) + " is not supported");
  }
  BpeTokenizer::Parts parts;
  FERMATA_ASSIGN_OR_RETURN(BpeTables tables, TablesOf(data));
  tables.ignore_merges = cuts->llama3;
  parts.added = AddedOf(data, /*pieces=*/false);
  FERMATA_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::ByteLevel(cuts->pattern));
  FERMATA_ASSIGN_OR_RETURN(parts.model, ByteBpe::Create(tables));
  parts.tokens = Spellings(data);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

TokenizerOr FromLlama(const TokenizerData& data) {
  if (data.scores.size() != data.tokens.size()) {
    return Error(data, "has " + std::to_string(data.scores.size()) + " scores for " +
                           std::to_string(data.tokens.size()) + " tokens");
  }
  ScoredPieces pieces{.pieces = data.tokens,
                      .scores = data.scores,
                      .bytes = {},
                      .unknown = data.unknown,
                      .source = data.source};
  pieces.bytes.fill(-1);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const int32_t type = TypeOf(data, id);
    if (type == kNormalToken) {
      if (data.scores[id] == data.scores[id]) continue;
      return TokenError(data, id, "has no number as its score");
    }
    pieces.pieces[id].clear();
    if (type == kUnknownToken && !pieces.unknown.has_value()) {
      pieces.unknown = static_cast<int32_t>(id);
    }
    if (type != kByteToken) continue;
    const std::optional<uint8_t> byte = ByteOfPiece(data.tokens[id]);
    if (!byte.has_value()) return TokenError(data, id, "is a byte, but not spelled as one");
    pieces.bytes[*byte] = static_cast<int32_t>(id);
  }
  BpeTokenizer::Parts parts;
  parts.kind = "sentencepiece";
  parts.normalizer = Normalizer::SentencePiece(data.add_space_prefix);
  parts.added = AddedOf(data, /*pieces=*/true);
  FERMATA_ASSIGN_OR_RETURN(parts.model, PieceBpe::Create(pieces));
  parts.tokens = Spellings(data);
  parts.strips_space_at_start = data.add_space_prefix;
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

TokenizerOr FromChecked(const TokenizerData& data) {
  if (data.model == "rwkv") return FromRwkv(data);
  if (data.model == "gpt2") return FromGpt2(data);
  if (data.model == "llama") return FromLlama(data);
  return Error(data, "the tokenizer model " + Quoted(data.model) + " is not supported");
}

}  // namespace

TokenizerOr Tokenizer::FromData(const TokenizerData& data, int64_t vocab_size) {
  FERMATA_RETURN_IF_ERROR(CheckData(data));
  FERMATA_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, FromChecked(data));
  FERMATA_RETURN_IF_ERROR(tokenizer->CheckSize(vocab_size, data.source));
  const Cuts* cuts = FindCuts(data.pre);
  const bool add_bos = data.model == "llama" || (cuts != nullptr && cuts->llama3);
  if (data.bos.has_value() && data.add_bos.value_or(add_bos)) tokenizer->start_ids_ = {*data.bos};
  return tokenizer;
}

}  // namespace fermata
