#include "engine/base/arena.h"

#include <algorithm>

namespace fermata {
namespace {

constexpr size_t kMinBlockFloats = size_t{1} << 18;  // 1 MiB.
constexpr size_t kFloatsPerLine = kBufferAlignment / sizeof(float);

}  // namespace

float* Arena::Floats(int64_t count) {
  const size_t need =
      (static_cast<size_t>(count) + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  while (block_ < blocks_.size() && used_ + need > blocks_[block_].size()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(std::max(need, kMinBlockFloats));
    used_ = 0;
  }
  float* result = blocks_[block_].data() + used_;
  used_ += need;
  return result;
}

}  // namespace fermata
