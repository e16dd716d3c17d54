#ifndef FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_
#define FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_

#include "engine/model/layout.h"

namespace fermata {

// The rows that the files of this folder give to the table in registry.cc.

extern const Layout kStateSpacesMamba2;  // state_spaces.cc

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_
