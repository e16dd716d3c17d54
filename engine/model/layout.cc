#include "engine/model/layout.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/kernels/block_product.h"

namespace fermata {
namespace {

bool IsNumber(std::string_view part) {
  return !part.empty() &&
         std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c); });
}

// A name with its first part that is a number replaced by '*', and that number.
struct Pattern {
  std::string text;
  std::string number;
};

Pattern MakePattern(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (IsNumber(part)) {
      return {std::string(name.substr(0, begin)) + "*" + std::string(name.substr(end)),
              std::string(part)};
    }
    begin = end + 1;
  }
  return {std::string(name), ""};
}

std::string Fill(std::string_view pattern, const std::string& number) {
  std::string name(pattern);
  if (const size_t at = name.find('*'); at != std::string::npos) name.replace(at, 1, number);
  return name;
}

// The part that `row` says of a stack whose parts, as they are stored, are `width` numbers wide.
AlignedBuffer<float> Part(const AlignedBuffer<float>& stack, const StoredName& row, int64_t size,
                          int64_t width) {
  AlignedBuffer<float> part(size);
  const int64_t run = row.along_last ? width : size;
  for (int64_t i = 0; i < size / run; ++i) {
    std::copy_n(stack.data() + (i * row.rows + row.row) * run, run, part.data() + i * run);
  }
  return part;
}

int64_t Size(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

bool FitsPattern(std::string_view name, std::string_view pattern) {
  return name == pattern || MakePattern(name).text == pattern;
}

LayoutWeights::LayoutWeights(WeightSource& stored, std::span<const StoredName> names)
    : stored_(stored) {
  for (const StoredName& row : names) rows_.emplace(row.canonical, &row);
}

LayoutWeights::Found LayoutWeights::Find(std::string_view name) const {
  const Pattern pattern = MakePattern(name);
  for (const std::string_view candidate : {std::string_view(pattern.text), name}) {
    const auto [begin, end] = rows_.equal_range(candidate);
    for (auto it = begin; it != end; ++it) {
      std::string stored = Fill(it->second->stored, pattern.number);
      // The last one is to blame when there is none.
      if (std::next(it) == end || stored_.Has(stored)) return {it->second, std::move(stored)};
    }
  }
  return {nullptr, std::string(name)};
}

bool LayoutWeights::Has(std::string_view name) const { return stored_.Has(Find(name).stored); }

WeightType LayoutWeights::matrix_type(std::string_view name) const {
  return stored_.matrix_type(Find(name).stored);
}

absl::StatusOr<std::optional<WeightBlocks>> LayoutWeights::ReadBlocks(
    std::string_view name, std::span<const int64_t> shape) {
  const auto [row, stored] = Find(name);
  // Blocks run along rows as they are stored.
  const bool as_is = row == nullptr || (row->how == StoredName::How::kAsIs && row->rows == 1 &&
                                        row->value == nullptr);
  if (!as_is) return std::nullopt;
  return stored_.ReadBlocks(stored, shape);
}

absl::StatusOr<AlignedBuffer<float>> LayoutWeights::Read(std::string_view name,
                                                         std::span<const int64_t> shape) {
  const auto [row, stored] = Find(name);
  if (row == nullptr) return stored_.Read(stored, shape);
  const int64_t size = Size(shape);
  const bool as_is = row->how == StoredName::How::kAsIs && row->rows == 1;
  FERMATA_ASSIGN_OR_RETURN(
      AlignedBuffer<float> values,
      as_is ? stored_.Read(stored, shape) : stored_.ReadReshaped(stored, row->rows * size));
  const bool turned = row->how == StoredName::How::kTransposed;
  if (row->rows > 1) {
    values = Part(values, *row, size, turned ? shape.front() : shape.back());
  }
  if (turned) {
    AlignedBuffer<float> transposed(size);
    Transpose(values.data(), shape[0], shape[1], shape[0], transposed.data(), shape[1]);
    values = std::move(transposed);
  }
  if (row->value != nullptr) std::ranges::transform(values, values.begin(), row->value);
  return values;
}

const Layout* FindLayout(const Checkpoint& checkpoint, const ConfigReader* config) {
  for (const Layout& layout : Layouts()) {
    if (layout.matches(checkpoint, config)) return &layout;
  }
  return nullptr;
}

}  // namespace fermata
