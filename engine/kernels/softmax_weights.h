#ifndef FERMATA_ENGINE_KERNELS_SOFTMAX_WEIGHTS_H_
#define FERMATA_ENGINE_KERNELS_SOFTMAX_WEIGHTS_H_

#include <cstdint>

namespace fermata {

// The weights of a softmax over a vocabulary, in float64, in blocks of kVocabularyBlock tokens. A
// count need not be a multiple of that: the last block is then filled up with tokens that have no
// weight. All bits are the same for every instruction set with a fused multiply-add (AVX2 and later).
//
// A NaN logit counts as -∞, and +∞ as the largest float.
inline constexpr int64_t kVocabularyBlock = 64;

constexpr int64_t VocabularyBlocks(int64_t count) {
  return (count + kVocabularyBlock - 1) / kVocabularyBlock;
}

// The largest logit of each block: maxima [VocabularyBlocks(count)].
void BlockMaxima(const float* logits, int64_t count, float* maxima);

// Which of the `count` logits of one block are at least `least`: writes their places in order, and
// returns how many there are. 1 <= count <= kVocabularyBlock; `places` has room for kPlacesRoom.
int64_t PlacesFrom(float least, const float* block, int64_t count, int32_t* places);
inline constexpr int64_t kPlacesRoom = kVocabularyBlock + 16;

// weights[i] = e^((logits[i] - largest) / temperature), within 1e-14 of it, and 0 below 2^-1021:
// [VocabularyBlocks(count) · kVocabularyBlock]. sums: those of the blocks. No logit is larger than
// `largest`, and temperature > 0.
void SoftmaxWeights(const float* logits, int64_t count, double largest, double temperature,
                    double* weights, double* sums);
// The same sums alone.
void SoftmaxBlockSums(const float* logits, int64_t count, double largest, double temperature,
                      double* sums);

// The sum of one block, as SoftmaxWeights forms it.
double BlockSum(const double* weights);

// The weights that are at least `least`, in whole blocks: how many there are, and their sum.
struct Mass {
  int64_t count = 0;
  double sum = 0;
};
Mass MassFrom(double least, const double* weights, int64_t blocks);

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_SOFTMAX_WEIGHTS_H_
