#include "engine/tokenizer/byte_bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/byte_level.h"

namespace fermata {

absl::StatusOr<std::unique_ptr<BpeModel>> ByteBpe::Create(const BpeTables& tables) {
  auto bpe = std::make_unique<ByteBpe>();
  FERMATA_RETURN_IF_ERROR(bpe->FindBytes(tables));
  FERMATA_RETURN_IF_ERROR(bpe->AddMerges(tables));
  bpe->FindWholeWords(tables);
  return bpe;
}

absl::Status ByteBpe::FindBytes(const BpeTables& tables) {
  byte_ids_.fill(-1);
  for (const auto& [token, id] : tables.vocab) {
    if (token.size() > 2) continue;  // The alphabet's characters have one or two bytes.
    const std::optional<std::string> bytes = BytesOfToken(token);
    if (!bytes.has_value() || bytes->size() != 1) continue;
    if (tables.special.contains(id)) {
      return absl::InvalidArgumentError(tables.vocab_name + ": the special token " + Quoted(token) +
                                        " is a byte");
    }
    byte_ids_[static_cast<uint8_t>((*bytes)[0])] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (in_utf8 && byte_ids_[byte] < 0) {
      return absl::InvalidArgumentError(tables.vocab_name + ": has no token for the byte " +
                                        std::to_string(byte));
    }
  }
  return absl::OkStatus();
}

absl::Status ByteBpe::AddMerges(const BpeTables& tables) {
  merges_.Reserve(tables.merges.size());
  for (size_t i = 0; i < tables.merges.size(); ++i) {
    const auto& [left, right, merged] = tables.merges[i];
    std::string why;
    if (tables.special.contains(merged)) {
      why = " makes a special token";
    } else if (!merges_.Add(left, right, {.rank = static_cast<int32_t>(i), .merged = merged})) {
      why = " stands twice";
    }
    if (!why.empty()) {
      return absl::InvalidArgumentError(tables.merges_name + ": element " + std::to_string(i) +
                                        why);
    }
  }
  return absl::OkStatus();
}

void ByteBpe::FindWholeWords(const BpeTables& tables) {
  whole_words_.reserve(tables.vocab.size());
  std::vector<int32_t> ids;
  for (const auto& [token, id] : tables.vocab) {
    if (tables.special.contains(id)) continue;
    std::optional<std::string> bytes = BytesOfToken(token);
    if (!bytes.has_value() || bytes->empty() || !Encodable(*bytes)) continue;
    ids.clear();
    if (!tables.ignore_merges) ApplyMerges(*bytes, ids);
    if (tables.ignore_merges || (ids.size() == 1 && ids[0] == id)) {
      whole_words_.emplace(*std::move(bytes), id);
    }
  }
}

bool ByteBpe::Encodable(std::string_view bytes) const {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
}

void ByteBpe::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  const auto whole = whole_words_.find(absl::string_view(word.data(), word.size()));
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
  } else {
    ApplyMerges(word, ids);
  }
}

void ByteBpe::EncodeInvalid(std::string_view bytes, std::vector<int32_t>& ids) const {
  std::string encodable;
  for (const char c : bytes) {
    if (byte_ids_[static_cast<uint8_t>(c)] < 0) {
      encodable += kReplacementCharacter;
    } else {
      encodable += c;
    }
  }
  Encode(encodable, ids);
}

std::string ByteBpe::BytesOf(std::string_view token) const {
  return BytesOfToken(token).value_or(std::string(token));
}

void ByteBpe::ApplyMerges(std::string_view word, std::vector<int32_t>& ids) const {
  thread_local std::vector<int32_t> symbols;
  symbols.clear();
  for (const char c : word) symbols.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  merges_.Apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  if (symbols.capacity() > kKeptSymbols) std::vector<int32_t>().swap(symbols);
}

}  // namespace fermata
