#ifndef FERMATA_ENGINE_FORMATS_BYTE_READER_H_
#define FERMATA_ENGINE_FORMATS_BYTE_READER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace fermata {

static_assert(std::endian::native == std::endian::little, "files are mapped, not converted");

// Reads bytes from front to back and never past their end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // False, with nothing read, where fewer bytes are left.
  template <typename T>
  bool Read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (left() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }
  bool Read(uint64_t count, std::span<const std::byte>* bytes) {
    if (left() < count) return false;
    *bytes = bytes_.subspan(offset_, count);
    offset_ += count;
    return true;
  }
  bool Read(uint64_t count, std::string_view* text) {
    std::span<const std::byte> bytes;
    if (!Read(count, &bytes)) return false;
    *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }
  // Text up to a line feed, which is read too and left out.
  bool ReadLine(std::string_view* text);

  size_t offset() const { return offset_; }  // Of the next byte.
  size_t left() const { return bytes_.size() - offset_; }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_BYTE_READER_H_
