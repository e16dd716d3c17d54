#ifndef FERMATA_TESTS_ENGINE_SESSION_RECORDS_H_
#define FERMATA_TESTS_ENGINE_SESSION_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/session/snapshot.h"

namespace fermata {

// A record with something in every field.
SessionRecord FullRecord(std::string_view id);

// `size` bytes that differ from place to place, and from `seed` to `seed`.
std::vector<std::byte> SomeState(size_t size, uint8_t seed);

std::string AsText(const std::vector<std::byte>& bytes);

// The reason that `status` carries, and its code: "NOT_FOUND SESSION_EXPIRED".
std::string Reason(const absl::Status& status);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_SESSION_RECORDS_H_
