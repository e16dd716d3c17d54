#include "server/config/model_path.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> Canonical(const fs::path& path, const std::string& origin) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  if (!error) return canonical.string();
  return absl::NotFoundError(
      absl::StrCat(origin, ": there is no directory or file ", path.lexically_normal().string()));
}

}  // namespace

absl::StatusOr<std::string> ResolveModelDir(const std::string& flag) {
  if (!flag.empty()) return Canonical(flag, "--model_dir");
  const char* variable = std::getenv("FERMATA_MODEL_DIR");
  if (variable != nullptr && *variable != '\0') return Canonical(variable, "$FERMATA_MODEL_DIR");
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return Canonical(executable.parent_path() / "../share/fermata/models/default",
                   "--model_dir is not given, nor is $FERMATA_MODEL_DIR");
}

}  // namespace fermata
