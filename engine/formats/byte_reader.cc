#include "engine/formats/byte_reader.h"

namespace fermata {

bool ByteReader::ReadLine(std::string_view* text) {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + offset_, left());
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos) return false;
  *text = rest.substr(0, length);
  offset_ += length + 1;
  return true;
}

}  // namespace fermata
