#ifndef FERMATA_TESTS_SETTINGS_H_
#define FERMATA_TESTS_SETTINGS_H_

#include <cstdint>
#include <cstdlib>

namespace fermata {

// The number that an environment variable says, or `fallback` where it says none.
inline int64_t Setting(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

// Whether this build has a sanitizer, under which all takes longer and more memory.
inline bool UnderSanitizer() {
  const char* sanitize = std::getenv("FERMATA_SANITIZE");
  return sanitize != nullptr && *sanitize != '\0';
}

}  // namespace fermata

#endif  // FERMATA_TESTS_SETTINGS_H_
