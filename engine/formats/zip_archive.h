#ifndef FERMATA_ENGINE_FORMATS_ZIP_ARCHIVE_H_
#define FERMATA_ENGINE_FORMATS_ZIP_ARCHIVE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// The bytes of an archive's entries, by name.
using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

// Finds the entries of a whole zip archive (zip64 too) of which none is compressed or encrypted; the
// spans point into `file`. Two entries of one name, entries that overlap or reach past the file, and
// all that minizip calls broken are errors. Check sums are not verified, as that would read it all.
// INVALID_ARGUMENT that begins with `source`; any bytes at all are safe.
absl::StatusOr<ZipEntries> ReadZipEntries(std::span<const std::byte> file, std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_ZIP_ARCHIVE_H_
