#include "engine/tokenizer/rwkv_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tokenizer/python_literal.h"

namespace fermata {
namespace {

// A decimal number that is all of `text`, or nullopt.
std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Line {
  int32_t id = 0;
  std::string bytes;
};

absl::StatusOr<Line> ParseLine(std::string_view line, int64_t vocab_size) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == line.npos || first == last) {
    return absl::InvalidArgumentError("must have an id, a literal and a length");
  }
  const std::optional<int64_t> id = Number(line.substr(0, first));
  if (!id.has_value() || *id < 1 || *id >= vocab_size) {
    return absl::InvalidArgumentError(Quoted(line.substr(0, first)) + " is not an id from 1 to " +
                                      std::to_string(vocab_size - 1));
  }
  FERMATA_ASSIGN_OR_RETURN(std::string bytes,
                           ParsePythonLiteral(line.substr(first + 1, last - first - 1)));
  if (Number(line.substr(last + 1)) != static_cast<int64_t>(bytes.size()) || bytes.empty()) {
    return absl::InvalidArgumentError("the literal has " + std::to_string(bytes.size()) +
                                      " bytes, and the line ends in " +
                                      Quoted(line.substr(last + 1)));
  }
  return Line{.id = static_cast<int32_t>(*id), .bytes = std::move(bytes)};
}

// Takes the first line off `text`.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Error unless every byte is a token and no token stands twice.
absl::Status CheckTokens(const std::vector<std::string>& tokens, const std::string& source) {
  std::array<bool, 256> bytes{};
  std::vector<std::pair<std::string_view, size_t>> sorted;
  sorted.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].size() == 1) bytes[static_cast<uint8_t>(tokens[id][0])] = true;
    if (!tokens[id].empty()) sorted.emplace_back(tokens[id], id);
  }
  const auto missing = std::find(bytes.begin(), bytes.end(), false);
  if (missing != bytes.end()) {
    return absl::InvalidArgumentError(source + ": has no token for the byte " +
                                      std::to_string(missing - bytes.begin()));
  }
  std::sort(sorted.begin(), sorted.end());
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(source + ": the token " + Quoted(twice->first) +
                                      " has the ids " + std::to_string(twice->second) + " and " +
                                      std::to_string((twice + 1)->second));
  }
  return absl::OkStatus();
}

}  // namespace

bool RwkvTokenizer::LooksRight(std::string_view text) {
  return ParseLine(TakeLine(text), kMaxTokenId).ok();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> RwkvTokenizer::Parse(std::string_view text,
                                                                const std::string& source,
                                                                int64_t vocab_size,
                                                                std::vector<AddedToken> added) {
  std::vector<std::string> tokens;
  for (int64_t number = 1; !text.empty(); ++number) {
    absl::StatusOr<Line> line = ParseLine(TakeLine(text), vocab_size);
    std::string why;
    if (!line.ok()) {
      why = std::string(line.status().message());
    } else {
      const auto id = static_cast<size_t>(line->id);
      if (id >= tokens.size()) tokens.resize(id + 1);
      if (tokens[id].empty()) {
        tokens[id] = std::move(line->bytes);
        continue;
      }
      why = "the id " + std::to_string(id) + " stands twice";
    }
    return absl::InvalidArgumentError(source + ": line " + std::to_string(number) + ": " + why);
  }
  return Create(std::move(tokens), std::move(added), source);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> RwkvTokenizer::Create(std::vector<std::string> tokens,
                                                                 std::vector<AddedToken> added,
                                                                 const std::string& source) {
  FERMATA_RETURN_IF_ERROR(CheckTokens(tokens, source));
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.id);
    if (id < tokens.size() && !tokens[id].empty() && tokens[id] != token.content) {
      return absl::InvalidArgumentError(source + ": the id " + std::to_string(id) + " of " +
                                        Quoted(token.content) + " is another token's");
    }
  }
  return std::unique_ptr<Tokenizer>(new RwkvTokenizer(std::move(tokens), std::move(added)));
}

RwkvTokenizer::RwkvTokenizer(std::vector<std::string> tokens, std::vector<AddedToken> added)
    : tokens_(std::move(tokens)) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    entries.emplace_back(tokens_[id], static_cast<int32_t>(id));
  }
  trie_ = ByteTrie(std::move(entries));
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    tokens_[id] = token.content;
  }
  special_.resize(tokens_.size());
  for (const AddedToken& token : added) special_[token.id] = token.special;
  special_[0] = true;
  added_ = AddedTokens(std::move(added), Normalizer());
}

std::vector<int32_t> RwkvTokenizer::DoEncode(std::string_view text, bool parse_special,
                                             TextPlace) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  added_.Split(text, /*normalized=*/false, parse_special,
               [&](std::string_view piece, const AddedToken* token) {
                 if (token != nullptr) {
                   ids.push_back(token->id);
                   return;
                 }
                 while (!piece.empty()) {
                   size_t longest = 0;
                   int32_t id = 0;
                   trie_.ForEachPrefix(piece, [&](size_t length, int32_t value) {
                     longest = length;
                     id = value;
                   });
                   ids.push_back(id);
                   piece.remove_prefix(longest);
                 }
               });
  return ids;
}

std::string_view RwkvTokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return tokens_[id];
}

bool RwkvTokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && special_[id];
}

}  // namespace fermata
