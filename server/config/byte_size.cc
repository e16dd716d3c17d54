#include "server/config/byte_size.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace fermata {
namespace {

struct Unit {
  const char* suffix;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"TiB", int64_t{1} << 40},
                           {"GiB", int64_t{1} << 30},
                           {"MiB", int64_t{1} << 20},
                           {"KiB", int64_t{1} << 10}};

}  // namespace

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  int64_t unit = 1;
  for (const Unit& known : kUnits) {
    if (absl::ConsumeSuffix(&text, known.suffix)) {
      unit = known.bytes;
      break;
    }
  }
  int64_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(text, &number) || number > std::numeric_limits<int64_t>::max() / unit) {
    *error = "expected a whole number of bytes, or one with KiB, MiB, GiB or TiB behind it";
    return false;
  }
  size->bytes = number * unit;
  return true;
}

std::string AbslUnparseFlag(const ByteSize& size) {
  for (const Unit& unit : kUnits) {
    if (size.bytes != 0 && size.bytes % unit.bytes == 0) {
      return absl::StrCat(size.bytes / unit.bytes, unit.suffix);
    }
  }
  return absl::StrCat(size.bytes);
}

}  // namespace fermata
