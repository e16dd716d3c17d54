#ifndef FERMATA_TESTS_ENGINE_TOKENIZER_TEST_VOCAB_H_
#define FERMATA_TESTS_ENGINE_TOKENIZER_TEST_VOCAB_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace fermata {

// The spelling of `bytes` in the byte-level alphabet, after GPT-2's published definition.
std::string Spell(const std::string& bytes);

// A byte-level tokenizer.json: ids 0 to 255 are the bytes, the next are the results of `merges`
// (pairs of byte strings), in order. Fields can then be changed at will.
nlohmann::json TestTokenizerJson(
    const std::vector<std::pair<std::string, std::string>>& merges = {});

// A tokenizer.json of Llama's kind: ids 0 to 255 are the bytes <0x00> to <0xFF>, the next are
// `pieces`, then the results of `merges`.
nlohmann::json TestPieceJson(const std::vector<std::string>& pieces,
                             const std::vector<std::pair<std::string, std::string>>& merges);
// "<0x41>" of 0x41.
std::string TestBytePiece(int byte);

// An RWKV World vocabulary: ids 1 to 256 are the bytes, the next are `tokens`.
std::string TestRwkvVocab(const std::vector<std::string>& tokens);

// An entry of added_tokens, all flags false.
nlohmann::json TestAddedToken(int id, const std::string& content);

// Parses it; the test fails when that does.
std::unique_ptr<Tokenizer> MustParse(const nlohmann::json& json);

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_TOKENIZER_TEST_VOCAB_H_
