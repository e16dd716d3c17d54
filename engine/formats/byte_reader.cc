#include "engine/formats/byte_reader.h"

#include "utf8proc.h"

namespace fermata {

bool ByteReader::ReadLine(std::string_view* text) {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + offset_, left());
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos) return false;
  *text = rest.substr(0, length);
  offset_ += length + 1;
  return true;
}

bool IsUtf8(std::string_view text) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point;
    const utf8proc_ssize_t length = utf8proc_iterate(at, left, &code_point);
    if (length <= 0) return false;
    at += length;
    left -= length;
  }
  return true;
}

}  // namespace fermata
