#ifndef FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_H_
#define FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/tokenizer.h"
#include "fermata/v1/generation.pb.h"
#include "server/openai/chat_message.h"
#include "server/openai/chat_prompt.h"

namespace fermata {

// What a template has to know beside the messages.
struct ChatPlace {
  bool goes_on = false;    // The sequence has tokens: only what is new is written.
  int32_t end_token = -1;  // The model's end-of-text token, or -1.
};

// How a conversation is written for a model, up to where the assistant's answer begins.
struct ChatTemplate {
  std::string_view name;
  // INVALID_ARGUMENT for messages in an order that the template has no form for.
  absl::Status (*write)(std::span<const ChatMessage> messages, const ChatPlace& place,
                        ChatPromptBuilder& prompt);
  // What an answer begins with that is not part of it.
  std::string_view lead;
  // What ends an answer beside the model's own end-of-text tokens: a special token (or the text that
  // spells it where it is none), a text; either may be empty.
  std::string_view stop_mark;
  std::string_view stop_text;
};

// All templates, in the order in which they are listed to people.
std::span<const ChatTemplate> ChatTemplates();
// Null when there is none of that name.
const ChatTemplate* FindChatTemplate(std::string_view name);

// The token ids that `messages` add to a sequence. It is new when `tail` is empty, else it ends with
// those tokens.
absl::StatusOr<std::vector<int32_t>> RenderChat(const ChatTemplate& chat_template,
                                                const Tokenizer& tokenizer,
                                                std::span<const ChatMessage> messages,
                                                std::vector<int32_t> tail, int32_t end_token);

// Adds what ends an answer of the template's.
void AddStops(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
              v1::SamplingParams& sampling);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_H_
