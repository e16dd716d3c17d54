#ifndef FERMATA_SERVER_OPENAI_CHAT_MESSAGE_H_
#define FERMATA_SERVER_OPENAI_CHAT_MESSAGE_H_

#include <string>

namespace fermata {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_MESSAGE_H_
