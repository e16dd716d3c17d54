#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tokenizer/bpe_model.h"

namespace fermata {

absl::StatusOr<BpeTables> BpeTables::Parse(const JsonNode& node) {
  FERMATA_RETURN_IF_ERROR(node.CheckObject());
  if (!node.Field("type").IsNull() || node.Field("merges").IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
    if (type != "BPE") return node.Error("the model " + Quoted(type) + " is not supported");
  }
  FERMATA_RETURN_IF_ERROR(node.OnlyFields(
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  const JsonNode dropout = node.Field("dropout");
  if (!dropout.IsNull() && dropout.value() != 0) return dropout.Error("dropout is not supported");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonNode affix = node.Field(name);
    if (!affix.IsNull() && affix.value() != "") return affix.Error("is not supported");
  }
  BpeTables tables;
  tables.vocab_name = node.Field("vocab").Where();
  tables.merges_name = node.Field("merges").Where();
  FERMATA_ASSIGN_OR_RETURN(tables.ignore_merges, node.Field("ignore_merges").Bool(false));
  FERMATA_ASSIGN_OR_RETURN(tables.byte_fallback, node.Field("byte_fallback").Bool(false));
  FERMATA_ASSIGN_OR_RETURN(tables.fuse_unknown, node.Field("fuse_unk").Bool(false));
  FERMATA_RETURN_IF_ERROR(tables.ParseVocab(node.Field("vocab")));
  const JsonNode unknown = node.Field("unk_token");
  if (!unknown.IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(const std::string token, unknown.String());
    const auto found = tables.vocab.find(token);
    // One that is not in the vocabulary never comes to be.
    if (found != tables.vocab.end()) tables.unknown = found->second;
  }
  FERMATA_RETURN_IF_ERROR(tables.ParseMerges(node.Field("merges")));
  return tables;
}

absl::Status BpeTables::ParseVocab(const JsonNode& node) {
  FERMATA_RETURN_IF_ERROR(node.CheckObject());
  vocab.reserve(node.value().size());
  absl::flat_hash_set<int32_t> ids;
  ids.reserve(node.value().size());
  for (const auto& [token, value] : node.value().items()) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id > kMaxTokenId) {
      return node.Error("the id of " + Quoted(token) + " is not a token id");
    }
    if (!ids.insert(static_cast<int32_t>(id)).second) {
      return node.Error("the id " + std::to_string(id) + " stands twice");
    }
    vocab.emplace(token, static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status BpeTables::ParseMerges(const JsonNode& node) {
  if (!node.IsArray()) return node.Error("must be a list");
  merges.reserve(node.value().size());
  for (const nlohmann::json& value : node.value()) {
    // Published as "a b" or as ["a", "b"].
    absl::Status added = absl::InvalidArgumentError("is not a pair of tokens");
    if (value.is_string()) {
      added = AddMerge(value.get_ref<const std::string&>());
    } else if (value.is_array() && value.size() == 2 && value[0].is_string() &&
               value[1].is_string()) {
      added =
          AddMerge(value[0].get_ref<const std::string&>(), value[1].get_ref<const std::string&>());
    }
    if (!added.ok()) {
      return node.Error("element " + std::to_string(merges.size()) + " " +
                        std::string(added.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status BpeTables::AddMerge(std::string_view pair) {
  const size_t space = pair.find(' ');
  if (space == pair.npos || pair.find(' ', space + 1) != pair.npos) {
    return absl::InvalidArgumentError("is not a pair of tokens");
  }
  return AddMerge(pair.substr(0, space), pair.substr(space + 1));
}

absl::Status BpeTables::AddMerge(std::string_view left, std::string_view right) {
  const auto find = [&](std::string_view token) {
    const auto found = vocab.find(absl::string_view(token.data(), token.size()));
    return found == vocab.end() ? -1 : found->second;
  };
  const Merge merge{.left = find(left),
                    .right = find(right),
                    .merged = find(std::string(left) + std::string(right))};
  if (merge.left < 0 || merge.right < 0 || merge.merged < 0) {
    return absl::InvalidArgumentError("has a token that is not in the vocab");
  }
  merges.push_back(merge);
  return absl::OkStatus();
}

}  // namespace fermata
