#include "engine/formats/element_type.h"

#include <algorithm>
#include <iterator>

namespace fermata {
namespace {

constexpr ElementType kElementTypes[] = {
    {"BOOL", 1, 1},
    {"U8", 1, 1},
    {"I8", 1, 1},
    {"U16", 1, 2},
    {"I16", 1, 2},
    {"U32", 1, 4},
    {"I32", 1, 4},
    {"U64", 1, 8},
    {"I64", 1, 8},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"F32", 1, 4},
    {"F64", 1, 8},
    {"C64", 1, 8},
    // Of .safetensors.
    {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},
    {"F8_E8M0", 1, 1},
    {"F6_E2M3", 4, 3},
    {"F6_E3M2", 4, 3},
    {"F4", 2, 1},
    // Of ggml.
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"Q8_K", 256, 292},
    {"IQ1_S", 256, 50},
    {"IQ1_M", 256, 56},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98},
    {"IQ3_S", 256, 110},
    {"IQ4_NL", 32, 18},
    {"IQ4_XS", 256, 136},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"Q1_0", 128, 18},
    {"Q2_0", 64, 18},
};

}  // namespace

std::optional<int64_t> ElementType::BytesFor(int64_t count) const {
  int64_t result = 0;
  if (count % block != 0 || __builtin_mul_overflow(count / block, bytes, &result)) {
    return std::nullopt;
  }
  return result;
}

const ElementType* FindElementType(std::string_view name) {
  const auto* type = std::ranges::find(kElementTypes, name, &ElementType::name);
  return type == std::end(kElementTypes) ? nullptr : type;
}

}  // namespace fermata
