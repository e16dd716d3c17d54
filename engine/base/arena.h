#ifndef FERMATA_ENGINE_BASE_ARENA_H_
#define FERMATA_ENGINE_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/aligned_buffer.h"

namespace fermata {

// Scratch memory for one thread's forward passes: floats that live until the enclosing Scope ends.
// Blocks are kept, so a steady load allocates nothing. Not thread-safe.
class Arena {
 public:
  // `count` floats, aligned to kBufferAlignment, with unspecified contents.
  float* Floats(int64_t count);

  // Gives back, at its end, all that was taken since its beginning. Scopes nest.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope() {
      arena_.block_ = block_;
      arena_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t block_;
    size_t used_;
  };

 private:
  std::vector<AlignedBuffer<float>> blocks_;
  size_t block_ = 0;  // Index of the block in use.
  size_t used_ = 0;   // Floats taken from it.
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_BASE_ARENA_H_
