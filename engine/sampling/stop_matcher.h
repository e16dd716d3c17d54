#ifndef FERMATA_ENGINE_SAMPLING_STOP_MATCHER_H_
#define FERMATA_ENGINE_SAMPLING_STOP_MATCHER_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata {

// Finds stop strings in a stream of text, and holds back what may become one, so that no part of a
// stop string ever leaves. The match that is complete first wins, so a stream never waits for text
// beyond a complete stop string; among those that are complete at the same byte, the longest. How
// the text is cut into pieces makes no difference. Not thread-safe.
class StopMatcher {
 public:
  // None of `stop` may be empty. Stop strings and text in UTF-8: then what leaves is whole
  // characters too.
  explicit StopMatcher(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  struct Result {
    std::string text;  // May leave now. On a match, all up to the stop string.
    // The stop string that is complete: the stream ends, and what follows it in the piece is
    // dropped. The matcher is then as new.
    std::optional<std::string> matched;
  };

  // Takes the next piece (whole characters). While `armed` is false nothing matches, and nothing
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
