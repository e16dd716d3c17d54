#include "engine/kernels/huge_buffer.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

namespace fermata {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;
// Of address space: what no buffer lies in takes no memory. Larger buffers have a piece of their own.
constexpr size_t kPieceBytes = 32 * kHugePage;

constexpr size_t RoundUpTo(size_t unit, size_t bytes) { return (bytes + unit - 1) / unit * unit; }

// Whole huge pages of zeroed memory, of which buffers take more and more. The address sanitizer is
// told what is no buffer's.
class Piece {
 public:
  explicit Piece(size_t size) : size_(size) {
    // The system aligns to small pages: of one huge page more, what is not needed goes back.
    void* data =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(data);
    const auto address = reinterpret_cast<uintptr_t>(begin_);
    const size_t before = RoundUpTo(kHugePage, address) - address;
    if (before > 0) munmap(begin_, before);
    begin_ += before;
    if (before < kHugePage) munmap(begin_ + size, kHugePage - before);
    // A refusal (no huge pages on this system) costs speed alone.
    madvise(begin_, size, MADV_HUGEPAGE);
    ASAN_POISON_MEMORY_REGION(begin_, size);
  }
  ~Piece() {
    ASAN_UNPOISON_MEMORY_REGION(begin_, size_);
    munmap(begin_, size_);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  size_t left() const { return size_ - used_; }
  std::byte* Take(size_t size) {
    std::byte* taken = begin_ + used_;
    used_ += size;
    return taken;
  }

 private:
  std::byte* begin_ = nullptr;
  size_t size_;
  size_t used_ = 0;
};

}  // namespace

HugeBuffer::HugeBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // A line apart, so that no buffer's end is another's beginning.
  const size_t size = RoundUpTo(kCacheLine, bytes) + kCacheLine;
  if (size > kPieceBytes / 2) {
    const auto piece = std::make_shared<Piece>(RoundUpTo(kHugePage, size));
    data_ = std::shared_ptr<void>(piece, piece->Take(size));
  } else {
    static auto& mutex = *new std::mutex;
    static auto& current = *new std::weak_ptr<Piece>;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Piece> piece = current.lock();
    if (piece == nullptr || piece->left() < size) {
      piece = std::make_shared<Piece>(kPieceBytes);
      current = piece;
    }
    data_ = std::shared_ptr<void>(piece, piece->Take(size));
  }
  ASAN_UNPOISON_MEMORY_REGION(data_.get(), bytes);
}

}  // namespace fermata
