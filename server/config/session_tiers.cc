#include "server/config/session_tiers.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"
#include "server/config/byte_size.h"

namespace fermata {
namespace {

constexpr int64_t kLeastMemory = 1 << 10;
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 2;

absl::Status Wrong(absl::string_view what, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("'", what, "': ", expected));
}

// `what` is shown when the size is wrong.
absl::StatusOr<int64_t> ParseSize(absl::string_view text, absl::string_view what, int64_t least) {
  ByteSize size;
  std::string error;
  if (!AbslParseFlag(text, &size, &error)) return Wrong(what, error);
  if (size.bytes < least || size.bytes > kMostBytes) {
    return Wrong(what,
                 absl::StrCat("must be at least ", least, " bytes, and at most ", kMostBytes));
  }
  return size.bytes;
}

absl::Status ParseDiskOption(absl::string_view option, SessionTiers::Disk& disk) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(option, absl::MaxSplits('=', 1));
  int64_t* const field = parts.first == "quota"              ? &disk.quota_bytes
                         : parts.first == "free_space_floor" ? &disk.free_space_floor
                                                             : nullptr;
  if (field == nullptr) {
    return Wrong(option, absl::StrCat("there is no option '", parts.first,
                                      "'; disk has quota and free_space_floor"));
  }
  if (*field != 0) return Wrong(option, "is given twice");
  FERMATA_ASSIGN_OR_RETURN(*field, ParseSize(parts.second, option, 1));
  return absl::OkStatus();
}

absl::StatusOr<SessionTiers::Disk> ParseDisk(absl::string_view text) {
  SessionTiers::Disk disk;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('?', 1));
  disk.directory = std::string(parts.first);
  if (disk.directory.empty()) return Wrong("disk:", "names no directory");
  if (parts.first.size() == text.size()) return disk;
  for (const absl::string_view option : absl::StrSplit(parts.second, '&')) {
    FERMATA_RETURN_IF_ERROR(ParseDiskOption(option, disk));
  }
  return disk;
}

}  // namespace

absl::StatusOr<SessionTiers> ParseSessionTiers(std::string_view text) {
  SessionTiers tiers;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> tier =
        absl::StrSplit(parts[i], absl::MaxSplits(':', 1));
    if (tier.first != "memory" && tier.first != "disk") {
      return Wrong(parts[i], absl::StrCat("there is no tier '", tier.first,
                                          "'; expected memory:SIZE or disk:DIRECTORY"));
    }
    if ((tier.first == "memory") != (i == 0)) {
      return Wrong(parts[i], i == 0 ? "memory:SIZE must come first" : "memory is given twice");
    }
    if (i == 0) {
      FERMATA_ASSIGN_OR_RETURN(tiers.memory_bytes, ParseSize(tier.second, parts[i], kLeastMemory));
    } else if (tiers.disk.has_value()) {
      return Wrong(parts[i], "there can be one disk only (a directory's name holds no comma)");
    } else {
      FERMATA_ASSIGN_OR_RETURN(tiers.disk, ParseDisk(tier.second));
    }
  }
  return tiers;
}

}  // namespace fermata
