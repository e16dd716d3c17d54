// Gated DeltaNet as flash-linear-attention published it until March 2025: the canonical tensors, and
// one that nothing ever read.

#include <algorithm>

#include "engine/model/layouts/layouts.h"

namespace fermata {
namespace {

constexpr std::string_view kUnused[] = {"model.layers.*.attn.D"};

bool Matches(const Checkpoint& checkpoint, const ConfigReader* config) {
  return config != nullptr && std::ranges::any_of(checkpoint.names(), [](std::string_view name) {
           return FitsPattern(name, kUnused[0]);
         });
}

}  // namespace

const Layout kFlaGatedDeltaNetWithD = {.name = "flash-linear-attention's Gated DeltaNet of 2024",
                                       .matches = Matches,
                                       .make_config = nullptr,
                                       .unused = kUnused};

}  // namespace fermata
