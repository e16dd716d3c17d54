#ifndef FERMATA_SERVER_OPENAI_COMPLETION_REPLY_H_
#define FERMATA_SERVER_OPENAI_COMPLETION_REPLY_H_

#include "server/openai/reply.h"

namespace fermata {

// Answers of /v1/completions: "text_completion", whole or in parts.
class CompletionReply final : public ReplyShape {
 public:
  using ReplyShape::ReplyShape;

  nlohmann::ordered_json WholeChoice(const ReplyPiece& piece) const override;
  nlohmann::ordered_json ChunkChoice(const ReplyPiece& piece) const override {
    return WholeChoice(piece);
  }
  bool announces_choices() const override { return false; }

 private:
  const char* WholeObject() const override { return "text_completion"; }
  const char* ChunkObject() const override { return "text_completion"; }
  nlohmann::ordered_json Logprobs(const ReplyPiece& piece) const;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_COMPLETION_REPLY_H_
