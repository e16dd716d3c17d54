#ifndef FERMATA_ENGINE_LAYERS_SEQUENCE_H_
#define FERMATA_ENGINE_LAYERS_SEQUENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fermata {

// A named part of a layer's state; float32, row-major.
struct StateBlock {
  std::string name;
  std::vector<int64_t> shape;

  int64_t size() const {
    int64_t product = 1;
    for (const int64_t extent : shape) product *= extent;
    return product;
  }
};

// The blocks of one mixer's state, one after another. Each part of the mixer adds its own.
class StateLayout {
 public:
  // Adds a block and returns where it begins, in floats from the beginning of the mixer's state.
  int64_t Add(std::string name, std::vector<int64_t> shape) {
    const int64_t offset = floats_;
    blocks_.push_back({std::move(name), std::move(shape)});
    floats_ += blocks_.back().size();
    return offset;
  }
  std::span<const StateBlock> blocks() const { return blocks_; }

 private:
  std::vector<StateBlock> blocks_;
  int64_t floats_ = 0;
};

// The consecutive rows of a batch that are the next tokens of one sequence.
struct SequenceRows {
  int64_t begin = 0;     // First row in the batch.
  int64_t count = 0;     // Number of rows; at least 1.
  int64_t position = 0;  // Tokens consumed before the first of these rows.
  // The mixer's blocks, one after another in the order of its layout; all zero at position 0.
  float* state = nullptr;
  // What grows with the position, for mixers that keep a cache beside the state.
  std::vector<float>* cache = nullptr;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_LAYERS_SEQUENCE_H_
