#include "engine/model/layouts/layouts.h"

namespace fermata {

std::span<const Layout> Layouts() {
  static const Layout layouts[] = {
      kStateSpacesMamba2,
  };
  return layouts;
}

}  // namespace fermata
