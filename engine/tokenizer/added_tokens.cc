#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "utf8proc.h"

namespace fermata {
namespace {

constexpr size_t kMaxContentBytes = 1024;

absl::StatusOr<AddedToken> ParseToken(const JsonNode& node) {
  FERMATA_RETURN_IF_ERROR(node.OnlyFields(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  FERMATA_ASSIGN_OR_RETURN(token.id, node.Field("id").TokenId());
  FERMATA_ASSIGN_OR_RETURN(token.content, node.Field("content").String());
  FERMATA_ASSIGN_OR_RETURN(token.single_word, node.Field("single_word").Bool());
  FERMATA_ASSIGN_OR_RETURN(token.lstrip, node.Field("lstrip").Bool());
  FERMATA_ASSIGN_OR_RETURN(token.rstrip, node.Field("rstrip").Bool());
  FERMATA_ASSIGN_OR_RETURN(token.normalized, node.Field("normalized").Bool());
  FERMATA_ASSIGN_OR_RETURN(token.special, node.Field("special").Bool());
  if (token.content.empty() || token.content.size() > kMaxContentBytes) {
    return node.Field("content").Error("must have 1 to " + std::to_string(kMaxContentBytes) +
                                       " bytes");
  }
  return token;
}

// What \w matches in Unicode regular expressions (annex 18, C): letters, marks, decimal and letter
// numbers, connectors, joiners.
bool IsWord(char32_t code_point) {
  switch (utf8proc_category(static_cast<int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return code_point == 0x200C || code_point == 0x200D ||
             (code_point >= 0x24B6 && code_point <= 0x24E9);  // Circled letters are Alphabetic.
  }
}

// The property White_Space.
bool IsSpace(char32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x85 ||
         utf8proc_category(static_cast<int32_t>(code_point)) == UTF8PROC_CATEGORY_ZS ||
         code_point == 0x2028 || code_point == 0x2029;
}

// The length of the first character of `text` if it has the property, else 0; also at the end of
// the text and before bytes that are not UTF-8.
size_t LeadingCharacter(std::string_view text, bool (*property)(char32_t)) {
  if (text.empty()) return 0;
  const Utf8Unit unit = FirstUtf8Unit(text);
  if (!unit.valid || !property(CodePoints(text.substr(0, unit.length))[0])) return 0;
  return unit.length;
}

// The same of the last character.
size_t TrailingCharacter(std::string_view text, bool (*property)(char32_t)) {
  for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    const std::string_view end = text.substr(text.size() - length);
    const Utf8Unit unit = FirstUtf8Unit(end);
    if (unit.valid && unit.length == length) return LeadingCharacter(end, property);
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> AddedTokens::Parse(const JsonNode& node) {
  std::vector<AddedToken> tokens;
  if (node.IsNull()) return tokens;
  FERMATA_ASSIGN_OR_RETURN(const auto elements, node.Elements());
  absl::flat_hash_set<int32_t> ids;
  absl::flat_hash_set<std::string> contents;
  for (const JsonNode& element : elements) {
    FERMATA_ASSIGN_OR_RETURN(AddedToken token, ParseToken(element));
    if (!ids.insert(token.id).second) return element.Field("id").Error("stands twice");
    if (!contents.insert(token.content).second) {
      return element.Field("content").Error("stands twice");
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  std::vector<ByteTrie::Entry> raw;
  std::vector<ByteTrie::Entry> normalized;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const AddedToken& token = tokens_[i];
    if (token.normalized && !token.sought.empty()) {
      normalized.emplace_back(token.sought, index);
    } else if (token.normalized) {
      normalized.emplace_back(normalizer.Normalize(token.content, TextPlace::kStart), index);
    } else {
      raw.emplace_back(token.content, index);
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

AddedTokens::Match AddedTokens::Find(const ByteTrie& trie, std::string_view text, size_t from,
                                     bool parse_special) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    Match longest;
    trie.ForEachPrefix(text.substr(begin), [&](size_t length, int32_t index) {
      const AddedToken& token = tokens_[index];
      if (token.special && !parse_special) return;
      longest = {.begin = begin, .end = begin + length, .token = &token};
    });
    if (longest.token != nullptr) return longest;
  }
  return {};
}

void AddedTokens::Split(std::string_view text, bool normalized, bool parse_special,
                        Piece piece) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  size_t done = 0;
  Match match = Find(trie, text, 0, parse_special);
  for (; match.token != nullptr; match = Find(trie, text, match.end, parse_special)) {
    const AddedToken& token = *match.token;
    if (token.single_word && (TrailingCharacter(text.substr(0, match.begin), IsWord) != 0 ||
                              LeadingCharacter(text.substr(match.end), IsWord) != 0)) {
      continue;
    }
    while (token.lstrip && match.begin > done) {
      const auto before = text.substr(done, match.begin - done);
      const size_t space = TrailingCharacter(before, IsSpace);
      if (space == 0) break;
      match.begin -= space;
    }
    while (token.rstrip) {
      const size_t space = LeadingCharacter(text.substr(match.end), IsSpace);
      if (space == 0) break;
      match.end += space;
    }
    if (match.begin > done) piece(text.substr(done, match.begin - done), nullptr);
    piece(text.substr(match.begin, match.end - match.begin), &token);
    done = match.end;
  }
  if (done < text.size()) piece(text.substr(done), nullptr);
}

}  // namespace fermata
