#ifndef FERMATA_ENGINE_KERNELS_FORM_H_
#define FERMATA_ENGINE_KERNELS_FORM_H_

#include <cstdint>
#include <string_view>

namespace fermata {

// How a run of tokens is computed. All three agree to rounding.
enum class Form {
  // Token after token. Prefilling in any pieces gives the same bits as feeding one token at a time.
  kRecurrent,
  // Chunks of kChunkTokens in parallel, the state carried between them. Chunks are cut at multiples
  // of kChunkTokens of the absolute position, so the bits do not depend on pieces that are cut
  // there.
  kChunkwise,
  // The whole run at once, in quadratic time: the oracle.
  kParallel,
};
inline constexpr int64_t kChunkTokens = 64;

// For people.
constexpr std::string_view FormName(Form form) {
  switch (form) {
    case Form::kRecurrent:
      return "recurrent";
    case Form::kChunkwise:
      return "chunkwise";
    case Form::kParallel:
      return "parallel";
  }
  return "?";
}

}  // namespace fermata

#endif  // FERMATA_ENGINE_KERNELS_FORM_H_
