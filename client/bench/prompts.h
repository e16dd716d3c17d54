#ifndef FERMATA_CLIENT_BENCH_PROMPTS_H_
#define FERMATA_CLIENT_BENCH_PROMPTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::bench {

// What one person says, turn by turn; at least one.
using Dialogue = std::vector<std::string>;

// The prompts of a file: lines of JSON where the first line begins with '{', else lines of plain
// text, each a prompt. Empty lines are passed over. A JSON object says it in the first of these
// fields that it has:
//   "prompt"       a text (Chatbot Arena's question files)
//   "turns"        a list of texts (MT-Bench's)
//   "messages"     a list of {"role", "content"}, of which the user's count
//   "instruction"  a text
// INVALID_ARGUMENT "<source>: line <n>: <why>" for any other, and for a file with no prompt.
absl::StatusOr<std::vector<Dialogue>> ParsePrompts(std::string_view text,
                                                   const std::string& source);

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_PROMPTS_H_
