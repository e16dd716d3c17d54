#ifndef FERMATA_ENGINE_TOKENIZER_REGEX_H_
#define FERMATA_ENGINE_TOKENIZER_REGEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace fermata {

// A regular expression of a tokenizer.json. Those are written for Oniguruma (Ruby syntax, Unicode)
// and run here by PCRE2: what both read alike is taken as it is, \s, \S, \w and \W are spelled out
// as Oniguruma defines them, and what the two read differently is refused. Immutable and
// thread-safe.
class Regex {
 public:
  // INVALID_ARGUMENT that says what is wrong, and where.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);
  // Matches `text` itself, which must not be empty.
  static absl::StatusOr<Regex> Literal(std::string_view text);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Calls `match` with the bytes [begin, end) of each match that is not empty, from left to right.
  // `text` must be UTF-8. A text on which the pattern runs into PCRE2's limits (ten million steps,
  // 64 MiB) has no further match; that depends on pattern and text alone.
  void ForEachMatch(std::string_view text,
                    absl::FunctionRef<void(size_t begin, size_t end)> match) const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  static absl::StatusOr<Regex> CompilePcre2(std::string_view pattern, uint32_t options);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_REGEX_H_
