#include "engine/model/layouts/reading.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {

absl::StatusOr<int64_t> Extent(const Checkpoint& checkpoint, const std::string& name, size_t axis) {
  const StoredTensor* tensor = checkpoint.Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(checkpoint.directory(), ": tensor ", Quoted(name), " is missing"));
  }
  if (axis >= tensor->shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.directory(), ": tensor ",
                                                   Quoted(name), ": shape ", tensor->ShapeText(),
                                                   ", wanted more than ", axis, " axes"));
  }
  return tensor->shape[axis];
}

absl::StatusOr<int64_t> Elements(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* tensor = checkpoint.Find(name);
  if (tensor != nullptr) return tensor->size();
  return absl::NotFoundError(
      absl::StrCat(checkpoint.directory(), ": tensor ", Quoted(name), " is missing"));
}

int64_t CountBlocks(const Checkpoint& checkpoint, const std::string& prefix,
                    const std::string& suffix) {
  int64_t count = 0;
  while (checkpoint.Has(absl::StrCat(prefix, count, suffix))) ++count;
  return count;
}

absl::Status PassTokensOn(ConfigReader& file, nlohmann::json& made) {
  for (const char* field : {"bos_token_id", "eos_token_id"}) {
    FERMATA_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                             file.Ints(field, 0, std::numeric_limits<int32_t>::max()));
    if (!ids.empty()) made[field] = ids;
  }
  return absl::OkStatus();
}

bool AnyEndsWith(const Checkpoint& checkpoint, std::string_view suffix) {
  return std::ranges::any_of(checkpoint.names(),
                             [&](std::string_view name) { return name.ends_with(suffix); });
}

}  // namespace fermata
