#ifndef FERMATA_TESTS_E2E_TURNS_H_
#define FERMATA_TESTS_E2E_TURNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/client.h"

namespace fermata::e2e {

// A turn as its reader saw it.
struct Turn {
  absl::Status status;
  v1::Started started;
  std::vector<v1::Chunk> chunks;
  v1::Complete complete;
  // Of all chunks together.
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

// Reads a turn to its end, checking what holds for every stream: `started` first, chunks whose
// numbers follow one another, whole characters, `complete` last and only with an OK status.
Turn Collect(client::GenerateStream& stream);
Turn RunTurn(client::Client& client, const v1::GenerateRequest& request);

// The same, for turns that must succeed.
Turn RunOk(client::Client& client, const v1::GenerateRequest& request);

// Requests of `n` tokens that no end-of-text token cuts short.
v1::GenerateRequest Greedy(const std::string& prompt, int n);
v1::GenerateRequest Seeded(const std::string& prompt, int n, uint64_t seed);
// The same request, on a session that is created when missing.
v1::GenerateRequest On(const std::string& session, v1::GenerateRequest request);
// The same request, with token ids for its prompt.
v1::GenerateRequest WithIds(v1::GenerateRequest request, const std::vector<int32_t>& ids);
// As many tokens as there may be: a turn that does not end by itself while a test looks on.
v1::GenerateRequest Endless(const std::string& prompt);

// One after the other.
std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b);

std::vector<int32_t> Tokenize(client::Client& client, const std::string& text);
// Without special tokens.
std::string Detokenize(client::Client& client, const std::vector<int32_t>& ids);

std::string Reason(const absl::Status& status);
std::string Metadata(const absl::Status& status, const std::string& key);

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_TURNS_H_
