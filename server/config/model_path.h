#ifndef FERMATA_SERVER_CONFIG_MODEL_PATH_H_
#define FERMATA_SERVER_CONFIG_MODEL_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace fermata {

// The directory of the model to serve, or its one file, with symbolic links resolved, so that a model
// is called by its own name: `flag` when it is not empty, else $FERMATA_MODEL_DIR, else the model
// that comes with the server, ../share/fermata/models/default beside the directory of the
// executable, installed as in a build tree.
//
// NOT_FOUND, saying what was looked at, when there is nothing there.
absl::StatusOr<std::string> ResolveModelDir(const std::string& flag);

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_MODEL_PATH_H_
