#ifndef FERMATA_ENGINE_KERNELS_PAST_KEYS_H_
#define FERMATA_ENGINE_KERNELS_PAST_KEYS_H_

#include <cstdint>

#include "engine/kernels/decays.h"

namespace fermata {

// What the quadratic forms of the decay rule and the delta rule are made of. It shares nothing with
// the chunkwise forms, so that each checks the other.

// The keys of a whole run as its tokens see them, one token after another.
class PastKeys {
 public:
  // Reads y [count, key_dim] and writes `scratch`, of ScratchFloats(count, key_dim) floats, for as
  // long as it lives.
  PastKeys(const Decays& decays, int64_t count, int64_t key_dim, const float* y, int64_t y_stride,
           float* scratch);
  static int64_t ScratchFloats(int64_t count, int64_t key_dim);

  // The next token comes: the keys that are in decay by its w, and its own joins them.
  void Next();

  // o [value_dim] += Σ_s (x · key s as it is now) v_s over the keys that are in, with rows v_s
  // `v_stride` floats apart.
  void Read(const float* x, const float* v, int64_t v_stride, float* o, int64_t value_dim);

  // S [key_dim, value_dim] += Σ_s (key s as it is now) v_sᵀ over the keys that are in.
  void AddTo(float* S, const float* v, int64_t v_stride, int64_t value_dim);

 private:
  Decays decays_;
  int64_t count_;
  int64_t key_dim_;
  int64_t size_ = 0;  // Keys that are in.
  float* keys_;       // yᵀ [key_dim, count]. Decays per channel are applied here,
  float* factors_;    // [count] and those that the channels share here.
  float* scores_;     // [count]
};

// The state S [key_dim, value_dim] of before a run as its tokens see it, one token after another.
class PastState {
 public:
  // Reads S and writes `scratch`, of ScratchFloats(key_dim) floats, for as long as it lives.
  PastState(const Decays& decays, int64_t key_dim, float* S, int64_t value_dim, float* scratch);
  static int64_t ScratchFloats(int64_t key_dim) { return 2 * key_dim; }

  // The next token comes: the state decays by its w.
  void Next();

  // o [value_dim] += x · S as it is now.
  void Read(const float* x, float* o);

  // Decays S itself, up to the last token that came.
  void DecayState();

 private:
  Decays decays_;
  int64_t key_dim_;
  int64_t value_dim_;
  int64_t tokens_ = 0;  // That came.
  float* S_;
  float* prefix_;  // [key_dim], the product of the decays of the tokens that came.
  float* row_;     // [key_dim]
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_PAST_KEYS_H_
