#ifndef FERMATA_SERVER_OPENAI_REPLY_H_
#define FERMATA_SERVER_OPENAI_REPLY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/tokenizer/tokenizer.h"
#include "fermata/v1/generation.pb.h"
#include "nlohmann/json.hpp"

namespace fermata {

// A token of a choice's text, as log-probabilities are told for it.
struct ScoredToken {
  int32_t id = 0;
  std::optional<float> logprob;  // Nullopt for the first of a text, which nothing precedes.
  std::vector<std::pair<int32_t, float>> top;
};

// What has come for one choice: some of it, or all. A stream sends pieces one by one; an answer that is
// sent whole is all pieces of a choice put together.
struct ReplyPiece {
  int index = 0;
  bool first = false;  // Nothing was sent for the choice before.
  std::string text;
  int64_t text_offset = 0;  // Characters of the choice before this piece.
  std::vector<ScoredToken> tokens;
  std::optional<v1::FinishReason> finish;

  // Adds what follows.
  void Append(ReplyPiece next);
};

struct ReplyUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// What all parts of an answer say.
struct ReplyHead {
  std::string id;
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

// Makes the JSON of one answer.
class ReplyShape {
 public:
  struct Options {
    ReplyHead head;
    const Tokenizer* tokenizer = nullptr;  // Must outlive this.
    bool with_logprobs = false;
  };
  explicit ReplyShape(Options options) : options_(std::move(options)) {}
  virtual ~ReplyShape() = default;

  // The answer without its choices, or one part of a stream.
  nlohmann::ordered_json Whole() const { return Envelope(WholeObject()); }
  nlohmann::ordered_json Chunk() const { return Envelope(ChunkObject()); }

  // A member of "choices".
  virtual nlohmann::ordered_json WholeChoice(const ReplyPiece& piece) const = 0;
  virtual nlohmann::ordered_json ChunkChoice(const ReplyPiece& piece) const = 0;
  // Whether a stream has a chunk for each choice before its first text.
  virtual bool announces_choices() const = 0;

 protected:
  virtual const char* WholeObject() const = 0;
  virtual const char* ChunkObject() const = 0;

  bool with_logprobs() const { return options_.with_logprobs; }
  const Tokenizer& tokenizer() const { return *options_.tokenizer; }

 private:
  nlohmann::ordered_json Envelope(const char* object) const;

  const Options options_;
};

// "stop" or "length"; null while there is none.
nlohmann::ordered_json FinishReasonJson(const std::optional<v1::FinishReason>& reason);
// Adds "finish_detail" to a choice whose turn ended for a reason that the dialect has no word for.
void AddFinishDetail(const ReplyPiece& piece, nlohmann::ordered_json& choice);

nlohmann::ordered_json UsageJson(const ReplyUsage& usage);
nlohmann::ordered_json SessionJson(const v1::SessionAfter& session);

// How a token is told in JSON: its text, or "bytes:\xe2\x82" where that is part of a character alone.
std::string TokenText(const Tokenizer& tokenizer, int32_t id);
// Characters that begin in a token's text.
int64_t TokenCharacters(const Tokenizer& tokenizer, int32_t id);
// And in any text.
int64_t CountCharacters(std::string_view text);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_REPLY_H_
