// The GGUF files of architectures that no other row of the table knows.

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/model/layouts/layouts.h"

namespace fermata {
namespace {

bool IsGguf(const Checkpoint& checkpoint, const ConfigReader*) {
  return checkpoint.gguf() != nullptr;
}

absl::StatusOr<ConfigReader> Refuse(const Checkpoint& checkpoint, ConfigReader*) {
  const GgufFile& gguf = *checkpoint.gguf();
  FERMATA_ASSIGN_OR_RETURN(const std::string architecture, gguf.String("general.architecture"));
  return gguf.Error("general.architecture", Quoted(architecture) + " is not known");
}

}  // namespace

const Layout kGgufUnknown = {"GGUF of an unknown architecture", IsGguf, Refuse, {}, {}};

}  // namespace fermata
