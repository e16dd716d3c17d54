#include "engine/tokenizer/pre_tokenizer.h"

#include <map>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tokenizer/pieces.h"

namespace fermata {
namespace {

// The pattern of GPT-2 (Radford et al., 2019), which ByteLevel applies.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const JsonNode& node) {
  PreTokenizer result;
  if (node.IsNull()) return result;
  std::vector<JsonNode> parts = {node};
  if (node.TypeIs("Sequence")) {
    FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "pretokenizers"}));
    FERMATA_ASSIGN_OR_RETURN(parts, node.Field("pretokenizers").Elements());
  }
  if (parts.empty()) return node.Error("is empty");
  result.byte_level_ = parts.back().TypeIs("ByteLevel");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].TypeIs("ByteLevel") && i + 1 < parts.size()) {
      return parts[i].Error("ByteLevel must be the last");
    }
    if (parts[i].TypeIs("Metaspace") && (i > 0 || result.byte_level_)) {
      return parts[i].Error("Metaspace must be the first, and stand without ByteLevel");
    }
    FERMATA_ASSIGN_OR_RETURN(Step step, ParseStep(parts[i]));
    result.steps_.push_back(std::move(step));
  }
  return result;
}

absl::StatusOr<PreTokenizer> PreTokenizer::ByteLevel(std::string_view pattern) {
  PreTokenizer result;
  result.byte_level_ = true;
  result.steps_.emplace_back();
  FERMATA_ASSIGN_OR_RETURN(result.steps_[0].regex,
                           Regex::Compile(pattern.empty() ? kGpt2Pattern : pattern));
  return result;
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseStep(const JsonNode& node) {
  if (node.TypeIs("Split")) return ParseSplit(node);
  if (node.TypeIs("Metaspace")) return ParseMetaspace(node);
  Step step;
  if (node.TypeIs("ByteLevel")) {
    // trim_offsets concerns offsets, which there are none of here.
    FERMATA_RETURN_IF_ERROR(
        node.OnlyFields({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    FERMATA_ASSIGN_OR_RETURN(const bool prefix, node.Field("add_prefix_space").Bool());
    if (prefix) step.prefix = Prefix::kAlways;
    FERMATA_ASSIGN_OR_RETURN(const bool use_regex, node.Field("use_regex").Bool(true));
    if (use_regex) {
      FERMATA_ASSIGN_OR_RETURN(step.regex, Regex::Compile(kGpt2Pattern));
    }
    return step;
  }
  if (node.TypeIs("Digits")) {
    FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "individual_digits"}));
    FERMATA_ASSIGN_OR_RETURN(const bool individual, node.Field("individual_digits").Bool(false));
    FERMATA_ASSIGN_OR_RETURN(step.regex, Regex::Compile("\\p{N}"));
    step.behavior = individual ? Behavior::kIsolated : Behavior::kContiguous;
    return step;
  }
  FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
  return node.Error("the pre-tokenizer " + Quoted(type) + " is not supported");
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseSplit(const JsonNode& node) {
  FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "pattern", "behavior", "invert"}));
  Step step;
  FERMATA_ASSIGN_OR_RETURN(step.behavior, ParseBehavior(node.Field("behavior")));
  FERMATA_ASSIGN_OR_RETURN(step.invert, node.Field("invert").Bool(false));
  const JsonNode pattern = node.Field("pattern");
  FERMATA_RETURN_IF_ERROR(pattern.OnlyFields({"Regex", "String"}));
  if (pattern.value().size() != 1) return pattern.Error("must have either Regex or String");
  const bool literal = !pattern.Field("String").IsNull();
  const JsonNode field = pattern.Field(literal ? "String" : "Regex");
  FERMATA_ASSIGN_OR_RETURN(const std::string text, field.String());
  absl::StatusOr<Regex> regex = literal ? Regex::Literal(text) : Regex::Compile(text);
  if (!regex.ok()) return field.Error(std::string(regex.status().message()));
  step.regex = *std::move(regex);
  return step;
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseMetaspace(const JsonNode& node) {
  // str_rep is what older files call the replacement besides.
  FERMATA_RETURN_IF_ERROR(node.OnlyFields(
      {"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"}));
  FERMATA_ASSIGN_OR_RETURN(const std::string replacement, node.Field("replacement").String());
  if (replacement != kSpacePiece) return node.Field("replacement").Error("must be U+2581");
  Step step;
  step.metaspace = true;
  FERMATA_ASSIGN_OR_RETURN(step.prefix, ParsePrefix(node));
  FERMATA_ASSIGN_OR_RETURN(const bool split, node.Field("split").Bool(true));
  if (split) {
    FERMATA_ASSIGN_OR_RETURN(step.regex, Regex::Literal(kSpacePiece));
    step.behavior = Behavior::kMergedWithNext;
  }
  return step;
}

absl::StatusOr<PreTokenizer::Prefix> PreTokenizer::ParsePrefix(const JsonNode& node) {
  const JsonNode scheme = node.Field("prepend_scheme");
  if (scheme.IsNull()) {
    FERMATA_ASSIGN_OR_RETURN(const bool prefix, node.Field("add_prefix_space").Bool(true));
    return prefix ? Prefix::kAlways : Prefix::kNever;
  }
  FERMATA_ASSIGN_OR_RETURN(const std::string name, scheme.String());
  if (name == "never") return Prefix::kNever;
  if (name == "first") return Prefix::kFirst;
  if (name == "always") return Prefix::kAlways;
  return scheme.Error("must be always, first or never");
}

absl::StatusOr<PreTokenizer::Behavior> PreTokenizer::ParseBehavior(const JsonNode& node) {
  static const auto& kBehaviors = *new std::map<std::string, Behavior>{
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"Contiguous", Behavior::kContiguous},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
  };
  FERMATA_ASSIGN_OR_RETURN(const std::string name, node.String());
  const auto found = kBehaviors.find(name);
  if (found == kBehaviors.end()) {
    return node.Error("the behavior " + Quoted(name) + " is not supported");
  }
  return found->second;
}

void PreTokenizer::Cut(const Step& step, std::string_view text,
                       absl::FunctionRef<void(std::string_view)> piece) {
  // Spans (matches and what lies between) cover the text. Each joins the piece that is open, or
  // closes it and opens the next.
  size_t begin = 0;
  size_t end = 0;
  bool last_is_match = false;  // Of the span added last to the open piece.
  const auto joins = [&](bool is_match) {
    switch (step.behavior) {
      case Behavior::kIsolated:
      case Behavior::kRemoved:
        return false;
      case Behavior::kContiguous:
        return is_match == last_is_match;
      case Behavior::kMergedWithPrevious:
        return is_match && !last_is_match;
      case Behavior::kMergedWithNext:
        return !is_match && last_is_match;
    }
    return false;
  };
  const auto close = [&] {
    if (begin == end) return;
    if (step.behavior == Behavior::kRemoved && last_is_match) return;
    piece(text.substr(begin, end - begin));
  };
  const auto add = [&](size_t span_end, bool matched) {
    if (span_end == end) return;
    const bool is_match = matched != step.invert;
    if (begin == end || !joins(is_match)) {
      close();
      begin = end;
    }
    end = span_end;
    last_is_match = is_match;
  };
  step.regex->ForEachMatch(text, [&](size_t match_begin, size_t match_end) {
    add(match_begin, false);
    add(match_end, true);
  });
  add(text.size(), false);
  close();
}

void PreTokenizer::Run(size_t at, std::string_view text, StretchPlace place,
                       absl::FunctionRef<void(std::string_view)> word) const {
  if (at == steps_.size()) {
    word(text);
    return;
  }
  const Step& step = steps_[at];
  std::string changed;
  if (step.metaspace) {
    changed = SpacesToPieces(text);
    text = changed;
  }
  const std::string_view space = step.metaspace ? kSpacePiece : " ";
  const bool prefix =
      step.prefix == Prefix::kAlways || (step.prefix == Prefix::kFirst && place.first);
  if (prefix && place.text == TextPlace::kStart && !text.starts_with(space)) {
    changed = std::string(space) + std::string(text);
    text = changed;
  }
  const auto next = [&](std::string_view piece) { Run(at + 1, piece, place, word); };
  if (step.regex.has_value()) {
    Cut(step, text, next);
  } else {
    next(text);
  }
}

void PreTokenizer::Split(std::string_view text, StretchPlace place,
                         absl::FunctionRef<void(std::string_view)> word) const {
  if (!text.empty()) Run(0, text, place, word);
}

}  // namespace fermata
