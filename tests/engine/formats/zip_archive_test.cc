#include "engine/formats/zip_archive.h"

#include <cstring>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gguf_file.h"
#include "tests/torch_file.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ZipSpec Three() { return {{"a/1", "first"}, {"a/2", ""}, {"b", std::string(300, 'b')}}; }

// From a copy that is exactly as long as `bytes`, so that a read past it is seen.
absl::StatusOr<ZipSpec> Read(const std::string& bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const auto entries = ReadZipEntries({copy.get(), bytes.size()}, "file");
  if (!entries.ok()) return entries.status();
  ZipSpec result;
  for (const auto& [name, span] : *entries) {
    result.push_back({name, {reinterpret_cast<const char*>(span.data()), span.size()}});
  }
  return result;
}

// The nth record of the directory from the back, and `bytes` in it put at an offset (APPNOTE 4.3.12:
// flags at 8, method at 10, sizes at 20 and 24, the entry's offset at 42, its name at 46).
std::string WithListing(std::string file, int nth, size_t at, const std::string& bytes) {
  size_t record = file.size();
  for (; nth > 0; --nth) record = file.rfind("PK\1\2", record - 1);
  return file.replace(record + at, bytes.size(), bytes);
}

TEST(ZipArchiveTest, ReadsStoredEntries) {
  for (const bool zip64 : {false, true}) {
    const auto entries = Read(ZipBytes(Three(), zip64));
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ(*entries, Three());
    EXPECT_TRUE(Read(ZipBytes({}, zip64))->empty());
  }
}

TEST(ZipArchiveTest, EveryBrokenArchiveIsAnError) {
  const std::string right = ZipBytes(Three());
  const std::string wide = ZipBytes(Three(), true);
  const size_t end = right.rfind("PK\5\6");
  const size_t record = wide.rfind("PK\6\6");
  const size_t locator = wide.rfind("PK\6\7");
  const std::string huge = Bytes(uint64_t{1} << 60);
  const auto with = [](std::string file, size_t at, const std::string& bytes) {
    return file.replace(at, bytes.size(), bytes);
  };
  const struct {
    std::string file;
    std::string why;
  } cases[] = {
      {"", "not a whole zip archive"},
      {std::string(100, 'x'), "not a whole zip archive"},
      {right + "x", "not a whole zip archive"},
      {"x" + right, "not a whole zip archive"},
      {with(right, end + 4, "\1"), "not a whole zip archive"},
      {with(right, end + 8, "\2"), "not a whole zip archive"},
      {with(right, end + 8, std::string("\2\0\2", 3)), "the zip archive's directory is broken"},
      {with(right, end + 8, std::string("\4\0\4", 3)), "not a whole zip archive"},
      {with(right, end + 8, "\xff\xff\xff\xff"), "not a whole zip archive"},
      {with(right, end + 12, "\xff\xff\xff\xff"), "not a whole zip archive"},
      {with(right, end + 16, "\xff\xff\xff\xff"), "not a whole zip archive"},
      {with(right, end + 20, "\1"), "not a whole zip archive"},
      {with(wide, locator + 8, huge), "not a whole zip archive"},
      {with(wide, locator + 8, std::string(8, '\xff')), "not a whole zip archive"},
      {with(wide, locator + 8, Bytes<uint64_t>(0)), "not a whole zip archive"},
      {with(wide, record + 24, huge + huge), "not a whole zip archive"},
      {with(wide, record + 40, huge), "not a whole zip archive"},
      {with(wide, record + 48, huge), "not a whole zip archive"},
      {WithListing(right, 1, 0, "PK\1\3"), "directory is broken"},
      {WithListing(right, 1, 8, "\1"), "zip entry \"b\": encrypted"},
      {WithListing(right, 1, 10, "\x08"), "zip entry \"b\": compressed"},
      {WithListing(right, 1, 20, "\1"), "zip entry \"b\": has two sizes"},
      {WithListing(right, 1, 20, Bytes(uint64_t{0x0fffffff0fffffff})),
       "zip entry \"b\": reaches past the archive's entries"},
      {WithListing(right, 1, 20, std::string(8, '\xff')), "directory is broken"},
      {WithListing(right, 1, 28, "\xff\xff"), "directory is broken"},
      {WithListing(right, 1, 30, "\xff\xff"), "directory is broken"},
      {WithListing(right, 1, 42, Bytes<uint32_t>(1)), "zip entry \"b\": its header is broken"},
      {WithListing(right, 1, 42, Bytes<uint32_t>(0x0fffffff)), "zip entry \"b\": reaches past"},
      {WithListing(right, 1, 46, "c"), "zip entry \"c\": its header is broken"},
      {WithListing(wide, 1, 46 + 1 + 5 + 2, "\7"), "directory is broken"},
      {WithListing(wide, 1, 46 + 1 + 5 + 4, huge), "zip entry \"b\": has two sizes"},
      {WithListing(wide, 1, 46 + 1 + 5 + 4, huge + huge), "zip entry \"b\": reaches past"},
      {WithListing(wide, 1, 46 + 1 + 5 + 4 + 16, huge), "zip entry \"b\": reaches past"},
      {ZipBytes({{"a", "1"}, {"a", "2"}}), "zip entry \"a\": stands twice"},
  };
  for (const auto& [file, why] : cases) {
    const absl::Status status = Read(file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), StartsWith("file: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// One entry in the other's bytes, with a header of its own.
TEST(ZipArchiveTest, OverlappingEntriesAreRefused) {
  const std::string inner = ZipBytes({{"in", "12345678"}});
  const std::string file =
      ZipBytes({{"out", inner.substr(0, inner.find("PK\1\2"))}, {"in", "12345678"}});
  const auto inside = static_cast<uint32_t>(file.find("PK\3\4", 4));
  EXPECT_TRUE(Read(file).ok());
  EXPECT_THAT(std::string(Read(WithListing(file, 1, 42, Bytes(inside))).status().message()),
              HasSubstr("zip entries \"out\" and \"in\" overlap"));
}

TEST(ZipArchiveTest, EveryTruncationIsRefused) {
  for (const bool zip64 : {false, true}) {
    const std::string right = ZipBytes(Three(), zip64);
    for (size_t size = 0; size < right.size(); ++size) {
      EXPECT_FALSE(Read(right.substr(0, size)).ok()) << size;
    }
  }
}

}  // namespace
}  // namespace fermata
