#ifndef FERMATA_ENGINE_KERNELS_HUGE_BUFFER_H_
#define FERMATA_ENGINE_KERNELS_HUGE_BUFFER_H_

#include <cstddef>
#include <memory>

namespace fermata {

// Zeroed bytes for packed weights, on huge pages where the system grants them: a product that
// streams through its weights spends 10 to 20 % of its time on address translation otherwise, and one
// of few weights up to half. Buffers are cut from larger pieces of memory, one after the other, as
// most matrices are smaller than a huge page. A piece goes back to the system with the last buffer in
// it; the system zeroes its pages as they are first written, on the thread that writes them.
// Movable; aligned to a cache line.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t bytes);
  HugeBuffer(HugeBuffer&&) = default;
  HugeBuffer& operator=(HugeBuffer&&) = default;

  void* data() const { return data_.get(); }
  float* floats() const { return static_cast<float*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> data_;  // Owns a share of the piece.
  size_t bytes_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_HUGE_BUFFER_H_
