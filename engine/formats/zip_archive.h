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

// Finds the entries of a whole zip archive (PKWARE's APPNOTE.TXT 6.3; zip64 too) of which none is
// compressed or encrypted; the spans point into `file`. Only the directory and the entries' headers
// are read: libraries hand out copies of entries, not where they lie, and Debian's minizip can not
// do so past 4 GiB.
//
// Strict: the directory ends the file, without a comment; entries are named once, do not overlap, lie
// before the directory, and their own headers name them too. Check sums are not verified, as that
// would read it all. INVALID_ARGUMENT that begins with `source`; any bytes at all are safe.
absl::StatusOr<ZipEntries> ReadZipEntries(std::span<const std::byte> file, std::string_view source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_ZIP_ARCHIVE_H_
