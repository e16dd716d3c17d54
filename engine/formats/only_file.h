#ifndef FERMATA_ENGINE_FORMATS_ONLY_FILE_H_
#define FERMATA_ENGINE_FORMATS_ONLY_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// The name of the directory's one file with this extension (".gguf"); empty when there is none.
// INVALID_ARGUMENT that lists them when there are several.
absl::StatusOr<std::string> OnlyFile(const std::string& directory, std::string_view extension);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_ONLY_FILE_H_
