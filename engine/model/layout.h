#ifndef FERMATA_ENGINE_MODEL_LAYOUT_H_
#define FERMATA_ENGINE_MODEL_LAYOUT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/config_reader.h"
#include "engine/base/weights.h"
#include "engine/model/checkpoint.h"

namespace fermata {

// Architectures and mixers know each tensor by one name and shape, the canonical ones. A layout is a
// way in which some author stores the same tensors, and is nothing but a table.

// One row: where a canonical tensor is found. '*' stands for the number of a block in both names. Of
// several rows for one canonical name the first counts whose tensor is stored.
struct StoredName {
  enum class How {
    kAsIs,        // In the canonical shape.
    kReshaped,    // As many numbers in any shape.
    kTransposed,  // [a, b] is stored as [b, a], with any extents of 1 around.
  };

  std::string_view canonical;
  std::string_view stored;
  How how = How::kAsIs;
  // When the stored tensor is a stack of `rows` equal parts along its first axis, or its last: which
  // one this is.
  int64_t row = 0;
  int64_t rows = 1;
  bool along_last = false;
  // What makes the canonical number of a stored one, where they differ.
  float (*value)(float) = nullptr;
};

struct Layout {
  std::string_view name;  // For people: "BlinkDL's RWKV-7".
  // Whether a checkpoint is stored this way. `config` is its config.json, or null where it has none.
  bool (*matches)(const Checkpoint& checkpoint, const ConfigReader* config);
  // The canonical config, for authors who have none or another. Null: theirs is the canonical one.
  // INVALID_ARGUMENT that names the field or tensor that makes no sense. What it reads of `config`
  // counts as read.
  absl::StatusOr<ConfigReader> (*make_config)(const Checkpoint& checkpoint, ConfigReader* config);
  // Names that are not in the table are the canonical ones.
  std::span<const StoredName> names;
  // Tensors that the layout's authors store and do not use, '*' as above.
  std::span<const std::string_view> unused;
};

// Every layout that is not the canonical one.
std::span<const Layout> Layouts();

// The layout of the checkpoint; null where it is the canonical one.
const Layout* FindLayout(const Checkpoint& checkpoint, const ConfigReader* config);

// Whether `name` is one that `pattern` stands for.
bool FitsPattern(std::string_view name, std::string_view pattern);

// Tables one after another.
template <size_t... kSizes>
constexpr auto JoinNames(const StoredName (&... tables)[kSizes]) {
  std::array<StoredName, (kSizes + ...)> joined{};
  auto* end = joined.data();
  ((end = std::copy(std::begin(tables), std::end(tables), end)), ...);
  return joined;
}

// The tensors of `stored` under their canonical names. Errors speak of the stored ones.
class LayoutWeights : public WeightSource {
 public:
  LayoutWeights(WeightSource& stored, std::span<const StoredName> names);

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override;
  bool Has(std::string_view name) const override;
  WeightType matrix_type(std::string_view name) const override;
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(std::string_view name,
                                                         std::span<const int64_t> shape) override;

 private:
  struct Found {
    const StoredName* row = nullptr;  // Null: the name is canonical.
    std::string stored;
  };
  Found Find(std::string_view name) const;

  WeightSource& stored_;
  std::multimap<std::string_view, const StoredName*> rows_;  // By canonical pattern.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUT_H_
