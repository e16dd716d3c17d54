#include "engine/tokenizer/normalizer.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/pieces.h"
#include "utf8proc.h"

namespace fermata {
namespace {

constexpr int kCanonical = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
constexpr int kCompatible = kCanonical | UTF8PROC_COMPAT;

int CombiningClass(int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// The decomposition of `text` in canonical order. utf8proc_decompose orders by neighbour swaps,
// which a client's long run of marks can make quadratic; hence the sort of our own.
std::vector<int32_t> Decompose(std::string_view text, utf8proc_option_t options) {
  std::vector<int32_t> decomposed;
  decomposed.reserve(text.size());
  int32_t buffer[32];  // The longest decomposition has 18 code points.
  int boundary_class = 0;
  for (const char32_t code_point : CodePoints(text)) {
    const auto length = utf8proc_decompose_char(static_cast<int32_t>(code_point), buffer, 32,
                                                options, &boundary_class);
    if (length < 0 || length > 32) {
      decomposed.push_back(static_cast<int32_t>(code_point));
    } else {
      decomposed.insert(decomposed.end(), buffer, buffer + length);
    }
  }
  const auto is_mark = [](int32_t code_point) { return CombiningClass(code_point) != 0; };
  for (auto at = decomposed.begin(); at != decomposed.end();) {
    const auto first = std::find_if(at, decomposed.end(), is_mark);
    at = std::find_if_not(first, decomposed.end(), is_mark);
    std::stable_sort(first, at,
                     [](int32_t a, int32_t b) { return CombiningClass(a) < CombiningClass(b); });
  }
  return decomposed;
}

std::string ApplyForm(std::string_view text, int form) {
  const auto options = static_cast<utf8proc_option_t>(form);
  std::vector<int32_t> code_points = Decompose(text, options);
  if ((form & UTF8PROC_COMPOSE) != 0) {
    const auto length = utf8proc_normalize_utf32(
        code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), options);
    if (length >= 0) code_points.resize(static_cast<size_t>(length));
  }
  std::string result;
  result.reserve(text.size());
  for (const int32_t code_point : code_points) AppendUtf8(code_point, result);
  return result;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const JsonNode& node) {
  Normalizer normalizer;
  if (node.IsNull()) return normalizer;
  if (!node.TypeIs("Sequence")) {
    FERMATA_ASSIGN_OR_RETURN(Step step, ParseStep(node));
    normalizer.steps_.push_back(std::move(step));
    return normalizer;
  }
  FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "normalizers"}));
  FERMATA_ASSIGN_OR_RETURN(const auto elements, node.Field("normalizers").Elements());
  for (const JsonNode& element : elements) {
    FERMATA_ASSIGN_OR_RETURN(Normalizer part, Parse(element));
    std::move(part.steps_.begin(), part.steps_.end(), std::back_inserter(normalizer.steps_));
  }
  return normalizer;
}

absl::StatusOr<Normalizer::Step> Normalizer::ParseStep(const JsonNode& node) {
  FERMATA_ASSIGN_OR_RETURN(const std::string type, node.Type());
  Step step;
  if (type == "Replace") {
    FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "pattern", "content"}));
    FERMATA_RETURN_IF_ERROR(node.Field("pattern").OnlyFields({"String"}));
    step.kind = Kind::kReplace;
    FERMATA_ASSIGN_OR_RETURN(step.pattern, node.Field("pattern").Field("String").String());
    FERMATA_ASSIGN_OR_RETURN(step.content, node.Field("content").String());
    if (step.pattern.empty()) return node.Field("pattern").Field("String").Error("is empty");
    return step;
  }
  if (type == "Prepend") {
    FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type", "prepend"}));
    step.kind = Kind::kPrepend;
    FERMATA_ASSIGN_OR_RETURN(step.content, node.Field("prepend").String());
    return step;
  }
  FERMATA_RETURN_IF_ERROR(node.OnlyFields({"type"}));
  if (type == "NFC") {
    step.form = kCanonical | UTF8PROC_COMPOSE;
  } else if (type == "NFD") {
    step.form = kCanonical;
  } else if (type == "NFKC") {
    step.form = kCompatible | UTF8PROC_COMPOSE;
  } else if (type == "NFKD") {
    step.form = kCompatible;
  } else {
    return node.Error("the normalizer " + Quoted(type) + " is not supported");
  }
  return step;
}

Normalizer Normalizer::SentencePiece(bool prefix) {
  Normalizer normalizer;
  if (prefix) normalizer.steps_.push_back({.kind = Kind::kPrepend, .content = " "});
  normalizer.steps_.push_back(
      {.kind = Kind::kReplace, .pattern = " ", .content = std::string(kSpacePiece)});
  return normalizer;
}

std::string Normalizer::Normalize(std::string_view text, TextPlace place) const {
  std::string result(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kForm:
        // ASCII is in all four forms already.
        if (!IsAscii(result)) result = ApplyForm(result, step.form);
        break;
      case Kind::kReplace:
        result = ReplaceAll(result, step.pattern, step.content);
        break;
      case Kind::kPrepend:
        if (place == TextPlace::kStart && !result.empty()) result.insert(0, step.content);
        break;
    }
  }
  return result;
}

}  // namespace fermata
