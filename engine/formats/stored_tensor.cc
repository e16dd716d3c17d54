#include "engine/formats/stored_tensor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"

namespace fermata {

int64_t StoredTensor::size() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

std::string StoredTensor::ShapeText() const {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

absl::Status CheckTiling(const StoredTensors& tensors, const DataSection& section) {
  struct Range {
    int64_t begin;
    int64_t end;
    const std::string* name;
  };
  const std::string source(section.source);
  const auto error = [&](const Range& range, const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": tensor ", Quoted(*range.name), ": ", why));
  };
  const auto align = [&](int64_t offset) {
    return (offset + section.alignment - 1) / section.alignment * section.alignment;
  };
  std::vector<Range> ranges;
  ranges.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const int64_t begin = tensor.data.data() - section.bytes.data();
    ranges.push_back({begin, begin + static_cast<int64_t>(tensor.data.size()), &name});
  }
  std::ranges::sort(ranges, {},
                    [](const Range& range) { return std::pair(range.begin, range.end); });
  int64_t end = 0;
  const std::string* last = nullptr;
  for (const Range& range : ranges) {
    if (range.begin < end) {
      return error(
          range, absl::StrCat("overlaps tensor ", Quoted(*last), " at data offset ", range.begin));
    }
    if (range.begin > align(end)) {
      return error(range, absl::StrCat("a hole of ", range.begin - end, " bytes before it"));
    }
    end = range.end;
    last = range.name;
  }
  const auto size = static_cast<int64_t>(section.bytes.size());
  if (size > align(end)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", size - end, " bytes after the last tensor belong to none"));
  }
  return absl::OkStatus();
}

}  // namespace fermata
