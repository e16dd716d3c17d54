#include "engine/tokenizer/pre_tokenizer.h"

#include <map>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// The pattern of GPT-2 (Radford et al., 2019), which ByteLevel applies.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const JsonNode& node) {
  PreTokenizer result;
  if (node.IsNull()) return node.Error("must be ByteLevel or a Sequence that ends in ByteLevel");
  std::vector<JsonNode> parts = {node};
  if (node.TypeIs("Sequence")) {
    FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "pretokenizers"}));
    FERMATA_ASSIGN_OR_RETURN(parts, node.Field("pretokenizers").Elements());
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].TypeIs("ByteLevel") != (i + 1 == parts.size())) {
      return parts[i].Error("ByteLevel must be the last, and the last must be ByteLevel");
    }
    FERMATA_ASSIGN_OR_RETURN(Step step, ParseStep(parts[i]));
    result.steps_.push_back(std::move(step));
  }
  if (parts.empty()) return node.Error("is empty");
  return result;
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::ParseStep(const JsonNode& node) {
  if (node.TypeIs("Split")) return ParseSplit(node);
  Step step;
  if (node.TypeIs("ByteLevel")) {
    // trim_offsets concerns offsets, which there are none of here.
    FERMATA_RETURN_IF_ERROR(
        node.OnlyFields({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    FERMATA_ASSIGN_OR_RETURN(step.add_prefix_space, node.Field("add_prefix_space").Bool());
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

void PreTokenizer::Run(size_t step, std::string_view text,
                       absl::FunctionRef<void(std::string_view)> word) const {
  if (step == steps_.size()) {
    word(text);
    return;
  }
  const auto next = [&](std::string_view piece) { Run(step + 1, piece, word); };
  std::string prefixed;
  if (steps_[step].add_prefix_space && !text.starts_with(' ')) {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  if (!steps_[step].regex.has_value()) {
    next(text);
    return;
  }
  Cut(steps_[step], text, next);
}

void PreTokenizer::Split(std::string_view text,
                         absl::FunctionRef<void(std::string_view)> word) const {
  if (!text.empty()) Run(0, text, word);
}

}  // namespace fermata
