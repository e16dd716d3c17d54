#include "engine/model/layouts/layouts.h"

namespace fermata {

std::span<const Layout> Layouts() {
  static const Layout layouts[] = {
      kStateSpacesMamba2, kStateSpacesNames, kBlinkDlRwkv4,      kBlinkDlRwkv5,
      kBlinkDlRwkv6,      kBlinkDlRwkv7,     kTransformersRwkv4, kTransformersRwkv5,
      kTransformersRwkv6, kFlaRwkv6,         kFlaRwkv7,          kFlaGatedDeltaNetWithD,
      kGgufRwkv6,         kGgufRwkv7,        kGgufMamba2,        kGgufUnknown,
  };
  return layouts;
}

}  // namespace fermata
