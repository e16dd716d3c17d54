#ifndef FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_
#define FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_

#include "engine/model/layout.h"

namespace fermata {

// The rows that the files of this folder give to the table in registry.cc.

extern const Layout kStateSpacesMamba2;  // state_spaces.cc
extern const Layout kStateSpacesNames;
extern const Layout kBlinkDlRwkv4;  // rwkv_blinkdl.cc
extern const Layout kBlinkDlRwkv5;
extern const Layout kBlinkDlRwkv6;
extern const Layout kBlinkDlRwkv7;
extern const Layout kTransformersRwkv4;  // rwkv_transformers.cc
extern const Layout kTransformersRwkv5;
extern const Layout kTransformersRwkv6;
extern const Layout kFlaRwkv6;  // rwkv_fla.cc
extern const Layout kFlaRwkv7;
extern const Layout kFlaGatedDeltaNetWithD;  // fla.cc
extern const Layout kGgufRwkv6;              // gguf_rwkv.cc
extern const Layout kGgufRwkv7;
extern const Layout kGgufMamba2;   // gguf_mamba2.cc
extern const Layout kGgufUnknown;  // gguf_unknown.cc; comes after all others of GGUF.

}  // namespace fermata

#endif  // FERMATA_ENGINE_MODEL_LAYOUTS_LAYOUTS_H_
