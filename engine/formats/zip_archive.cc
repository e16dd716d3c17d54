#include "engine/formats/zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <unzip.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// A file in memory, as minizip asks for one.
struct Stream {
  std::span<const std::byte> bytes;
  uint64_t offset = 0;
  bool ended = false;  // The last read found less than it wanted.
};

voidpf OpenStream(voidpf opaque, const void*, int) {
  static_cast<Stream*>(opaque)->offset = 0;
  return opaque;
}

uLong ReadStream(voidpf, voidpf stream, void* buffer, uLong size) {
  auto* in = static_cast<Stream*>(stream);
  const uint64_t count = std::min<uint64_t>(size, in->bytes.size() - in->offset);
  if (count > 0) std::memcpy(buffer, in->bytes.data() + in->offset, count);
  in->offset += count;
  in->ended = count < size;
  return count;
}

ZPOS64_T TellStream(voidpf, voidpf stream) { return static_cast<Stream*>(stream)->offset; }

long SeekStream(voidpf, voidpf stream, ZPOS64_T offset, int origin) {
  auto* in = static_cast<Stream*>(stream);
  const uint64_t size = in->bytes.size();
  const uint64_t base = origin == SEEK_SET ? 0 : origin == SEEK_CUR ? in->offset : size;
  if (offset > size - base) return -1;
  in->offset = base + offset;
  return 0;
}

int CloseStream(voidpf, voidpf) { return 0; }

// minizip asks this after a short read, and takes what is missing for zeros if it is not told.
int StreamError(voidpf, voidpf stream) { return static_cast<Stream*>(stream)->ended ? 1 : 0; }

struct Closer {
  void operator()(unzFile zip) const { unzClose(zip); }
};
using Zip = std::unique_ptr<void, Closer>;

class ArchiveReader {
 public:
  ArchiveReader(std::span<const std::byte> file, std::string_view source)
      : source_(source), stream_{file} {}

  absl::StatusOr<ZipEntries> Read() {
    zlib_filefunc64_def functions = {OpenStream, ReadStream,  nullptr,     TellStream,
                                     SeekStream, CloseStream, StreamError, &stream_};
    const Zip zip(unzOpen2_64("", &functions));
    if (zip == nullptr) return Error("not a whole zip archive");
    ZipEntries entries;
    int result = unzGoToFirstFile(zip.get());
    for (; result == UNZ_OK; result = unzGoToNextFile(zip.get())) {
      FERMATA_RETURN_IF_ERROR(AddEntry(zip.get(), entries));
    }
    if (result != UNZ_END_OF_LIST_OF_FILE) return Error("the zip archive's directory is broken");
    FERMATA_RETURN_IF_ERROR(CheckApart(entries));
    return entries;
  }

 private:
  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", why));
  }

  absl::Status AddEntry(unzFile zip, ZipEntries& entries) const {
    unz_file_info64 info;
    std::string name;
    // Once for the name's length, once for the name.
    for (int i = 0; i < 2; ++i) {
      if (unzGetCurrentFileInfo64(zip, &info, name.data(), name.size(), nullptr, 0, nullptr, 0) !=
          UNZ_OK) {
        return Error("the zip archive's directory is broken");
      }
      name.resize(info.size_filename);
    }
    const auto error = [&](const char* why) {
      return Error(absl::StrCat("zip entry ", Quoted(name), ": ", why));
    };
    constexpr uLong kEncrypted = 1;
    if ((info.flag & kEncrypted) != 0) return error("encrypted");
    if (info.compression_method != 0) {
      return error(
          "compressed, as only the programs in TorchScript archives are: save the tensors of "
          "its state_dict() alone");
    }
    if (info.compressed_size != info.uncompressed_size) return error("has two sizes");
    // Opening compares the entry's own header with the directory.
    if (unzOpenCurrentFile(zip) != UNZ_OK) return error("its header is broken");
    const uint64_t begin = unzGetCurrentFileZStreamPos64(zip);
    unzCloseCurrentFile(zip);
    const uint64_t size = stream_.bytes.size();
    if (begin > size || info.uncompressed_size > size - begin) {
      return error("reaches past the end of the file");
    }
    const auto bytes = stream_.bytes.subspan(begin, info.uncompressed_size);
    return entries.emplace(name, bytes).second ? absl::OkStatus() : error("stands twice");
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

  std::string source_;
  Stream stream_;
};

}  // namespace

absl::StatusOr<ZipEntries> ReadZipEntries(std::span<const std::byte> file,
                                          std::string_view source) {
  return ArchiveReader(file, source).Read();
}

}  // namespace fermata
