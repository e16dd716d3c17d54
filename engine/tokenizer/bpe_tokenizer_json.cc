// Reads a tokenizer.json.

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/byte_bpe.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/piece_bpe.h"
#include "engine/tokenizer/pieces.h"

namespace fermata {
namespace {

absl::Status CheckFile(const JsonNode& file) {
  FERMATA_RETURN_IF_ERROR(
      file.OnlyFields({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"}));
  for (const char* name : {"truncation", "padding"}) {
    if (!file.Field(name).IsNull()) return file.Field(name).Error("must be null");
  }
  return absl::OkStatus();
}

// The node itself, or the elements of its `list` if it is a Sequence, and of theirs.
absl::StatusOr<std::vector<JsonNode>> Flattened(const JsonNode& node, std::string_view list) {
  FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type != "Sequence") return std::vector<JsonNode>{node};
  FERMATA_ASSIGN_OR_RETURN(const auto elements, node.Field(list).Elements());
  if (elements.empty()) return node.Field(list).Error("is empty");
  std::vector<JsonNode> flat;
  for (const JsonNode& element : elements) {
    FERMATA_ASSIGN_OR_RETURN(auto part, Flattened(element, list));
    std::move(part.begin(), part.end(), std::back_inserter(flat));
  }
  return flat;
}

// All ids are below `vocab_size`. Checked before anything is laid out by them.
absl::Status CheckRange(const JsonNode& file, const std::vector<AddedToken>& added,
                        const BpeTables& tables, int64_t vocab_size) {
  int32_t last = -1;
  for (const AddedToken& token : added) last = std::max(last, token.id);
  for (const auto& [token, id] : tables.vocab) last = std::max(last, id);
  if (last < vocab_size) return absl::OkStatus();
  return file.Error("has ids up to " + std::to_string(last) + ", but the model has " +
                    std::to_string(vocab_size) + " tokens");
}

// An added token may stand in the vocabulary too, but then under the same id.
absl::Status CheckIds(const JsonNode& node, const std::vector<AddedToken>& added,
                      const BpeTables& tables) {
  absl::flat_hash_map<int32_t, const AddedToken*> by_id;
  for (const AddedToken& token : added) {
    by_id.emplace(token.id, &token);
    const auto found = tables.vocab.find(token.content);
    if (found != tables.vocab.end() && found->second != token.id) {
      return node.Error(Quoted(token.content) + " has another id in model.vocab");
    }
  }
  for (const auto& [token, id] : tables.vocab) {
    const auto found = by_id.find(id);
    if (found != by_id.end() && found->second->content != token) {
      return node.Error("the id " + std::to_string(id) + " is another token's in model.vocab");
    }
  }
  return absl::OkStatus();
}

// The ids that a template puts before a text: those of the special tokens before its sequence.
absl::StatusOr<std::vector<int32_t>> TemplateStart(const JsonNode& node) {
  std::vector<int32_t> ids;
  if (node.Field("single").IsNull()) return ids;
  FERMATA_ASSIGN_OR_RETURN(const auto items, node.Field("single").Elements());
  for (const JsonNode& item : items) {
    const JsonNode special = item.Field("SpecialToken");
    if (special.IsNull()) break;
    FERMATA_ASSIGN_OR_RETURN(const std::string name, special.Field("id").String());
    const JsonNode token = node.Field("special_tokens").Field(name);
    FERMATA_ASSIGN_OR_RETURN(const auto elements, token.Field("ids").Elements());
    for (const JsonNode& element : elements) {
      FERMATA_ASSIGN_OR_RETURN(const int32_t id, element.TokenId());
      ids.push_back(id);
    }
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ParsePostProcessor(const JsonNode& node) {
  std::vector<int32_t> start;
  if (node.IsNull()) return start;
  FERMATA_ASSIGN_OR_RETURN(const auto parts, Flattened(node, "processors"));
  for (const JsonNode& part : parts) {
    FERMATA_ASSIGN_OR_RETURN(const std::string type, part.Type());
    if (type == "ByteLevel") continue;  // Of offsets, which there are none of here.
    if (type != "TemplateProcessing") return part.Error(Quoted(type) + " is not supported");
    FERMATA_ASSIGN_OR_RETURN(const auto ids, TemplateStart(part));
    start.insert(start.begin(), ids.begin(), ids.end());
  }
  return start;
}

// The decoder of a vocabulary whose pieces have U+2581 for the space: Metaspace, or Replace,
// ByteFallback, Fuse and Strip. Returns whether a space at the start is taken off.
absl::StatusOr<bool> ParsePieceDecoder(const JsonNode& node) {
  FERMATA_ASSIGN_OR_RETURN(const auto parts, Flattened(node, "decoders"));
  bool strips = false;
  for (const JsonNode& part : parts) {
    FERMATA_ASSIGN_OR_RETURN(const std::string type, part.Type());
    if (type == "Replace") {
      const nlohmann::json expected = {{"String", std::string(kSpacePiece)}};
      if (part.Field("pattern").value() != expected || part.Field("content").value() != " ") {
        return part.Error("must replace U+2581 by a space");
      }
    } else if (type == "Strip") {
      if (part.Field("content").value() != " " || part.Field("start").value() != 1 ||
          part.Field("stop").value() != 0) {
        return part.Error("must take off one space at the start");
      }
      strips = true;
    } else if (type == "Metaspace") {
      const JsonNode scheme = part.Field("prepend_scheme");
      FERMATA_ASSIGN_OR_RETURN(const bool prefix, part.Field("add_prefix_space").Bool(true));
      strips = scheme.IsNull() ? prefix : scheme.value() != "never";
    } else if (type != "ByteFallback" && type != "Fuse") {
      return part.Error(Quoted(type) + " is not supported");
    }
  }
  return strips;
}

absl::Status CheckByteLevelDecoder(const JsonNode& node) {
  FERMATA_ASSIGN_OR_RETURN(const auto parts, Flattened(node, "decoders"));
  for (const JsonNode& part : parts) {
    FERMATA_ASSIGN_OR_RETURN(const std::string type, part.Type());
    if (type != "ByteLevel") return part.Error(Quoted(type) + " is not supported");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Parse(std::string_view json,
                                                               std::string source,
                                                               int64_t vocab_size) {
  FERMATA_ASSIGN_OR_RETURN(const nlohmann::json value, ParseJson(json, source));
  const JsonNode file(value, std::move(source));
  FERMATA_RETURN_IF_ERROR(CheckFile(file));
  Parts parts;
  FERMATA_ASSIGN_OR_RETURN(parts.normalizer, Normalizer::Parse(file.Field("normalizer")));
  FERMATA_ASSIGN_OR_RETURN(parts.added, AddedTokens::Parse(file.Field("added_tokens")));
  FERMATA_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::Parse(file.Field("pre_tokenizer")));
  FERMATA_ASSIGN_OR_RETURN(parts.start_ids, ParsePostProcessor(file.Field("post_processor")));
  FERMATA_ASSIGN_OR_RETURN(BpeTables tables, BpeTables::Parse(file.Field("model")));
  FERMATA_RETURN_IF_ERROR(CheckRange(file, parts.added, tables, vocab_size));
  FERMATA_RETURN_IF_ERROR(CheckIds(file.Field("added_tokens"), parts.added, tables));
  for (const AddedToken& token : parts.added) {
    if (token.special) tables.special.insert(token.id);
  }
  if (parts.pre_tokenizer.byte_level()) {
    FERMATA_RETURN_IF_ERROR(CheckByteLevelDecoder(file.Field("decoder")));
    FERMATA_ASSIGN_OR_RETURN(parts.model, ByteBpe::Create(tables));
  } else if (file.Field("decoder").TypeIs("ByteLevel")) {
    return file.Field("pre_tokenizer").Error("must end in ByteLevel, as the decoder is one");
  } else {
    FERMATA_ASSIGN_OR_RETURN(parts.strips_space_at_start, ParsePieceDecoder(file.Field("decoder")));
    FERMATA_ASSIGN_OR_RETURN(parts.model, PieceBpe::Create(tables));
  }
  for (auto& [token, id] : tables.vocab) {
    if (parts.tokens.size() <= static_cast<size_t>(id)) parts.tokens.resize(id + 1);
    parts.tokens[id] = token;
  }
  const std::vector<int32_t> start = parts.start_ids;
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(parts));
  for (const int32_t id : start) {
    if (!tokenizer->IsSpecial(id)) {
      return file.Field("post_processor")
          .Error("begins with " + std::to_string(id) + ", which is not a special token");
    }
  }
  return tokenizer;
}

}  // namespace fermata
