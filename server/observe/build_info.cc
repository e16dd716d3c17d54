#include "server/observe/build_info.h"

namespace fermata {

const char* Version() { return FERMATA_VERSION; }

}  // namespace fermata
