#include "engine/session/page_token.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "engine/base/error.h"
#include "xxhash.h"

namespace fermata {
namespace {

// Eight bytes that tie `last` to `labels`, and tell a token of ours from other text. Labels hold
// any UTF-8, so lengths keep them apart.
std::string Seal(std::string_view last, const std::map<std::string, std::string>& labels) {
  std::string sealed = "page 1:" + std::string(last);
  for (const auto& [key, value] : labels) {
    for (const std::string* part : {&key, &value}) {
      sealed += ":" + std::to_string(part->size()) + ":" + *part;
    }
  }
  const uint64_t hash = XXH3_64bits(sealed.data(), sealed.size());
  std::string seal;
  for (int i = 0; i < 8; ++i) seal.push_back(static_cast<char>(hash >> (8 * i)));
  return seal;
}

}  // namespace

std::string EncodePageToken(std::string_view last,
                            const std::map<std::string, std::string>& labels) {
  return absl::WebSafeBase64Escape(Seal(last, labels) + std::string(last));
}

absl::StatusOr<std::string> DecodePageToken(std::string_view token,
                                            const std::map<std::string, std::string>& labels) {
  if (token.empty()) return std::string();
  std::string bytes;
  if (absl::WebSafeBase64Unescape(absl::string_view(token.data(), token.size()), &bytes) &&
      bytes.size() > 8) {
    std::string last = bytes.substr(8);
    if (EncodePageToken(last, labels) == token) return last;
  }
  return InvalidField("page_token", "not a token of this listing");
}

}  // namespace fermata
