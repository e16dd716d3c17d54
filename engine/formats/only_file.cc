#include "engine/formats/only_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace fermata {

absl::StatusOr<std::string> OnlyFile(const std::string& directory, std::string_view extension) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == extension) names.push_back(it->path().filename());
  }
  if (error) return absl::NotFoundError(absl::StrCat(directory, ": ", error.message()));
  if (names.size() > 1) {
    std::ranges::sort(names);
    return absl::InvalidArgumentError(absl::StrCat(
        directory,
        ": several files and no index: give the path of one: ", absl::StrJoin(names, ", ")));
  }
  return names.empty() ? "" : names.front();
}

}  // namespace fermata
