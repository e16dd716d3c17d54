#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/session/session_store.h"
#include "utf8proc.h"

namespace fermata {
namespace {

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether `name` begins with a letter or digit and has only those and `punctuation`.
bool IsName(std::string_view name, std::string_view punctuation) {
  if (name.empty() || !IsAlphanumeric(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return IsAlphanumeric(c) || punctuation.find(c) != std::string_view::npos;
  });
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

}  // namespace

absl::Status ValidateSessionId(std::string_view id, std::string_view field) {
  if (id.size() > kMaxSessionIdBytes) return InvalidField(field, "longer than 128 bytes");
  if (!IsName(id, "._:-")) {
    return InvalidField(field, "must begin with a letter or digit and have only those and . _ : -");
  }
  return absl::OkStatus();
}

absl::Status ValidateLabels(const std::map<std::string, std::string>& labels,
                            std::string_view field) {
  if (labels.size() > kMaxLabels) return InvalidField(field, "more than 32 labels");
  for (const auto& [key, value] : labels) {
    if (key.size() > kMaxLabelKeyBytes) return InvalidField(field, "a key is longer than 63 bytes");
    if (!IsName(key, "._/-")) {
      return InvalidField(
          field, "a key must begin with a letter or digit and have only those and . _ / -");
    }
    if (value.size() > kMaxLabelValueBytes) {
      return InvalidField(field, "a value is longer than 255 bytes");
    }
    if (!IsUtf8(value)) return InvalidField(field, "a value is not UTF-8");
  }
  return absl::OkStatus();
}

absl::Status ValidateTtl(absl::Duration ttl, std::string_view field) {
  if (ttl < absl::Milliseconds(1) || ttl > absl::Hours(24 * 36525)) {
    return InvalidField(field, "must be from 1 ms to 100 years");
  }
  return absl::OkStatus();
}

}  // namespace fermata
