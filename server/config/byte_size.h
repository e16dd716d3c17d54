#ifndef FERMATA_SERVER_CONFIG_BYTE_SIZE_H_
#define FERMATA_SERVER_CONFIG_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace fermata {

// A flag's number of bytes: a whole number, bare or with one of the suffixes KiB, MiB, GiB, TiB.
struct ByteSize {
  int64_t bytes = 0;
};

// The interface of Abseil's flags. Refuses what is negative, fractional or more than fits.
bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
// With the largest suffix that leaves a whole number.
std::string AbslUnparseFlag(const ByteSize& size);

}  // namespace fermata

#endif  // FERMATA_SERVER_CONFIG_BYTE_SIZE_H_
