#ifndef FERMATA_ENGINE_SAMPLING_STOP_MATCHER_H_
#define FERMATA_ENGINE_SAMPLING_STOP_MATCHER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fermata {

// Finds stop strings in a stream of text, and holds back what may become one, so that no part of a
// stop string ever leaves. The earliest match in the text wins; among those that begin at the same
// byte, the one that is complete first.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  struct Result {
    std::string text;                    // May leave now.
    std::optional<std::string> matched;  // Set once a stop string is complete; the stream ends.
  };

  // Takes the next text (whole characters). While `armed` is false nothing matches, and nothing
  // that was appended then can become part of a later match.
  Result Append(std::string_view text, bool armed = true);

  // What was held back, at the end of a stream that ends for another reason.
  std::string Finish();

 private:
  std::vector<std::string> stop_;
  std::string held_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_SAMPLING_STOP_MATCHER_H_
