#ifndef FERMATA_ENGINE_BASE_ALIGNED_BUFFER_H_
#define FERMATA_ENGINE_BASE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace fermata {

inline constexpr size_t kBufferAlignment = 64;  // A cache line, and the widest vector register.

// A fixed number of `T`, zeroed, that starts on a kBufferAlignment boundary. Movable, not copyable:
// copies of states and weights are always meant, so they are always written out.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size)
      : data_(size == 0 ? nullptr : new (std::align_val_t{kBufferAlignment}) T[size]()),
        size_(size) {}
  // With values left to be written, all of them: a large buffer's pages are then had from the system
  // by the threads that fill it, where zeroing would have one thread wait for them all.
  static AlignedBuffer ToBeFilled(size_t size) {
    AlignedBuffer buffer;
    if (size > 0) buffer.data_.reset(new (std::align_val_t{kBufferAlignment}) T[size]);
    buffer.size_ = size;
    return buffer;
  }

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  struct Deleter {
    void operator()(T* p) const { operator delete[](p, std::align_val_t{kBufferAlignment}); }
  };
  std::unique_ptr<T[], Deleter> data_;
  size_t size_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_ALIGNED_BUFFER_H_
