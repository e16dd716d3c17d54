#include "engine/kernels/huge_buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace fermata {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;

}  // namespace

HugeBuffer::HugeBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  const size_t alignment = huge ? kHugePage : kCacheLine;
  const size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, size);
  if (data == nullptr) throw std::bad_alloc();
  data_.reset(data);
  // A refusal (no huge pages on this system) costs speed alone.
  if (huge) madvise(data, size, MADV_HUGEPAGE);
  std::memset(data, 0, size);
}

void HugeBuffer::Free::operator()(void* data) const { std::free(data); }

}  // namespace fermata
