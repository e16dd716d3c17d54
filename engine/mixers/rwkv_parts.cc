#include "engine/mixers/rwkv_parts.h"

#include "absl/strings/str_cat.h"

namespace fermata {

absl::StatusOr<int64_t> DivideIntoHeads(const ConfigReader& config, int64_t width,
                                        int64_t num_heads) {
  if (width < num_heads || width % num_heads != 0) {
    return config.Error("num_heads",
                        absl::StrCat(num_heads, " heads do not divide ", width, " channels"));
  }
  return width / num_heads;
}

}  // namespace fermata
