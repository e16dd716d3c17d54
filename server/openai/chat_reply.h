#ifndef FERMATA_SERVER_OPENAI_CHAT_REPLY_H_
#define FERMATA_SERVER_OPENAI_CHAT_REPLY_H_

#include "server/openai/reply.h"

namespace fermata {

// Answers of /v1/chat/completions: "chat.completion", or "chat.completion.chunk" by "chunk".
class ChatReply final : public ReplyShape {
 public:
  using ReplyShape::ReplyShape;

  nlohmann::ordered_json WholeChoice(const ReplyPiece& piece) const override;
  nlohmann::ordered_json ChunkChoice(const ReplyPiece& piece) const override;
  bool announces_choices() const override { return true; }

 private:
  const char* WholeObject() const override { return "chat.completion"; }
  const char* ChunkObject() const override { return "chat.completion.chunk"; }
  nlohmann::ordered_json Choice(const ReplyPiece& piece, const char* part,
                                nlohmann::ordered_json message) const;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_REPLY_H_
