#include "engine/formats/zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/formats/byte_reader.h"

namespace fermata {
namespace {

// Records begin with these; the sections of APPNOTE.TXT describe them.
constexpr uint32_t kEntry = 0x04034b50;        // 4.3.7
constexpr uint32_t kListing = 0x02014b50;      // 4.3.12
constexpr uint32_t kWideEnd = 0x06064b50;      // 4.3.14
constexpr uint32_t kWideLocator = 0x07064b50;  // 4.3.15
constexpr uint32_t kEnd = 0x06054b50;          // 4.3.16
constexpr size_t kListingBytes = 46;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kEndBytes = 22;

constexpr uint16_t kWideExtra = 1;                     // 4.5.3
constexpr uint16_t kEncrypted = 1 | 1 << 6 | 1 << 13;  // Flags, 4.4.4
// What stands in a field of 32 bits when a wider one has the value.
constexpr uint32_t kElsewhere = UINT32_MAX;

// Where the directory lies, and how many entries it lists.
struct Directory {
  uint64_t entries = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

// An entry as the directory lists it.
struct Listing {
  std::string_view name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint64_t stored_size = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // Of its own header.
};

class ArchiveReader {
 public:
  ArchiveReader(std::span<const std::byte> file, std::string_view source)
      : file_(file), source_(source) {}

  absl::StatusOr<ZipEntries> Read() {
    Directory directory;
    if (!FindDirectory(&directory)) return Error("not a whole zip archive");
    ByteReader reader(file_.subspan(directory.offset, directory.size));
    ZipEntries entries;
    for (uint64_t i = 0; i < directory.entries; ++i) {
      Listing listing;
      if (!ReadListing(reader, &listing)) return Error("the zip archive's directory is broken");
      FERMATA_ASSIGN_OR_RETURN(const auto bytes, Locate(listing, directory.offset));
      if (!entries.emplace(listing.name, bytes).second) return EntryError(listing, "stands twice");
    }
    if (reader.left() > 0) return Error("the zip archive's directory is broken");
    FERMATA_RETURN_IF_ERROR(CheckApart(entries));
    return entries;
  }

 private:
  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", why));
  }
  absl::Status EntryError(const Listing& listing, const char* why) const {
    return Error(absl::StrCat("zip entry ", Quoted(listing.name), ": ", why));
  }

  // False where there is none, or where it does not reach from the entries to its end.
  bool FindDirectory(Directory* directory) const {
    if (file_.size() < kEndBytes) return false;
    uint64_t end = file_.size() - kEndBytes;
    ByteReader reader(file_.subspan(end));
    uint32_t signature = 0;
    uint32_t disks = 0;  // This one's number, and that of the directory's first.
    uint16_t here = 0;
    uint16_t entries = 0;
    uint32_t size = 0;
    uint32_t offset = 0;
    uint16_t comment = 0;
    reader.Read(&signature);
    reader.Read(&disks);
    reader.Read(&here);
    reader.Read(&entries);
    reader.Read(&size);
    reader.Read(&offset);
    reader.Read(&comment);
    if (signature != kEnd || disks != 0 || here != entries || comment != 0) return false;
    *directory = {entries, size, offset};
    if (!FindWideDirectory(directory, &end)) return false;
    return directory->offset <= end && directory->size == end - directory->offset &&
           directory->entries <= directory->size / kListingBytes;
  }

  // Reads the zip64 record where there is one, and moves `end` to it.
  bool FindWideDirectory(Directory* directory, uint64_t* end) const {
    if (*end < kLocatorBytes) return true;
    ByteReader locator(file_.subspan(*end - kLocatorBytes));
    uint32_t signature = 0;
    uint32_t disk = 0;
    uint64_t offset = 0;
    locator.Read(&signature);
    if (signature != kWideLocator) return true;
    locator.Read(&disk);
    locator.Read(&offset);
    if (offset > *end - kLocatorBytes) return false;
    ByteReader record(file_.subspan(offset));
    std::span<const std::byte> versions;
    uint64_t length = 0;
    uint64_t disks = 0;
    uint64_t here = 0;
    const bool whole = record.Read(&signature) && record.Read(&length) &&
                       record.Read(4, &versions) && record.Read(&disks) && record.Read(&here) &&
                       record.Read(&directory->entries) && record.Read(&directory->size) &&
                       record.Read(&directory->offset);
    *end = offset;
    return whole && signature == kWideEnd && disk == 0 && disks == 0 && here == directory->entries;
  }

  static bool ReadListing(ByteReader& reader, Listing* listing) {
    uint32_t signature = 0;
    std::span<const std::byte> skipped;
    std::span<const std::byte> extra;
    uint16_t name_size = 0;
    uint16_t extra_size = 0;
    uint16_t comment_size = 0;
    uint32_t stored_size = 0;
    uint32_t size = 0;
    uint32_t offset = 0;
    const bool whole = reader.Read(&signature) && reader.Read(4, &skipped) &&
                       reader.Read(&listing->flags) && reader.Read(&listing->method) &&
                       reader.Read(8, &skipped) && reader.Read(&stored_size) &&
                       reader.Read(&size) && reader.Read(&name_size) && reader.Read(&extra_size) &&
                       reader.Read(&comment_size) && reader.Read(8, &skipped) &&
                       reader.Read(&offset) && reader.Read(name_size, &listing->name) &&
                       reader.Read(extra_size, &extra) && reader.Read(comment_size, &skipped);
    if (!whole || signature != kListing) return false;
    listing->stored_size = stored_size;
    listing->size = size;
    listing->offset = offset;
    return ReadWideFields(extra, listing);
  }

  // The values that have no room in 32 bits stand in an extra field, in this order.
  static bool ReadWideFields(std::span<const std::byte> extra, Listing* listing) {
    std::vector<uint64_t*> wanted;
    for (uint64_t* field : {&listing->size, &listing->stored_size, &listing->offset}) {
      if (*field == kElsewhere) wanted.push_back(field);
    }
    ByteReader reader(extra);
    uint16_t id = 0;
    uint16_t size = 0;
    std::span<const std::byte> bytes;
    while (!wanted.empty() && reader.Read(&id) && reader.Read(&size) && reader.Read(size, &bytes)) {
      if (id != kWideExtra) continue;
      ByteReader fields(bytes);
      return std::ranges::all_of(wanted, [&](uint64_t* field) { return fields.Read(field); });
    }
    return wanted.empty();
  }

  absl::StatusOr<std::span<const std::byte>> Locate(const Listing& listing, uint64_t limit) const {
    if ((listing.flags & kEncrypted) != 0) return EntryError(listing, "encrypted");
    if (listing.method != 0) {
      return EntryError(listing,
                        "compressed, as only the programs in TorchScript archives are: save the "
                        "tensors of its state_dict() alone");
    }
    if (listing.stored_size != listing.size) return EntryError(listing, "has two sizes");
    if (listing.offset > limit) return EntryError(listing, "reaches past the archive's entries");
    ByteReader reader(file_.subspan(listing.offset, limit - listing.offset));
    uint32_t signature = 0;
    uint16_t method = 0;
    uint16_t name_size = 0;
    uint16_t extra_size = 0;
    std::string_view name;
    std::span<const std::byte> skipped;
    // Its sizes may be left to a record behind the bytes, so the directory's are the ones to use.
    const bool whole = reader.Read(&signature) && reader.Read(4, &skipped) &&
                       reader.Read(&method) && reader.Read(16, &skipped) &&
                       reader.Read(&name_size) && reader.Read(&extra_size) &&
                       reader.Read(name_size, &name) && reader.Read(extra_size, &skipped);
    if (!whole || signature != kEntry || method != 0 || name != listing.name) {
      return EntryError(listing, "its header is broken");
    }
    std::span<const std::byte> bytes;
    if (!reader.Read(listing.size, &bytes)) {
      return EntryError(listing, "reaches past the archive's entries");
    }
    return bytes;
  }

  absl::Status CheckApart(const ZipEntries& entries) const {
    std::vector<ZipEntries::const_pointer> order;
    for (const auto& entry : entries) {
      if (!entry.second.empty()) order.push_back(&entry);
    }
    std::ranges::sort(order, {}, [](const auto* entry) { return entry->second.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
      const auto& before = order[i - 1]->second;
      if (before.data() + before.size() > order[i]->second.data()) {
        return Error(absl::StrCat("zip entries ", Quoted(order[i - 1]->first), " and ",
                                  Quoted(order[i]->first), " overlap"));
      }
    }
    return absl::OkStatus();
  }

  std::span<const std::byte> file_;
  std::string source_;
};

}  // namespace

absl::StatusOr<ZipEntries> ReadZipEntries(std::span<const std::byte> file,
                                          std::string_view source) {
  return ArchiveReader(file, source).Read();
}

}  // namespace fermata
