#ifndef FERMATA_ENGINE_MODEL_LOAD_PROGRESS_H_
#define FERMATA_ENGINE_MODEL_LOAD_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string_view>

namespace fermata {

// How far the loading of a model is.
struct LoadProgress {
  // In this order. Most of the time goes to kWeights: reading tensors, and packing them as the
  // weight type wants.
  enum class Phase { kWeights, kFingerprint };

  Phase phase = Phase::kWeights;
  // Of this phase, done and in all. Bytes are as stored. A tensor that the model does not use is
  // never done with in kWeights.
  int64_t tensors_done = 0;
  int64_t tensors = 0;
  int64_t bytes_done = 0;
  int64_t bytes = 0;

  double share() const {
    return bytes == 0 ? 1 : static_cast<double>(bytes_done) / static_cast<double>(bytes);
  }
};

constexpr std::string_view LoadPhaseName(LoadProgress::Phase phase) {
  return phase == LoadProgress::Phase::kWeights ? "weights" : "fingerprint";
}

// Is called on the thread that loads, before each tensor and at the end.
using LoadProgressFunction = std::function<void(const LoadProgress&)>;

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LOAD_PROGRESS_H_
