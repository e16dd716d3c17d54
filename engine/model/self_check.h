#ifndef FERMATA_ENGINE_MODEL_SELF_CHECK_H_
#define FERMATA_ENGINE_MODEL_SELF_CHECK_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace fermata {

// How far one form's logits are from the recurrent form's.
struct FormDifference {
  Form form = Form::kRecurrent;
  double largest =
      0;  // |difference|, as a share of the largest |logit|; NaN where one is not finite.
};

// Feeds `count` random tokens to the model in every form, chunkwise and parallel in two pieces each,
// and compares all logits with those of one token at a time. Forms of a sound model agree to
// rounding: some 1e-5 or less.
std::vector<FormDifference> CompareForms(const Model& model, int64_t count, uint64_t seed);

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_SELF_CHECK_H_
