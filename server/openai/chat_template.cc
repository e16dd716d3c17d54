#include "server/openai/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

using Messages = std::span<const ChatMessage>;

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

std::string_view LowerRole(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
  }
  return "";
}

// One text: contents follow one another with nothing between.
absl::Status WritePlain(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  if (!place.goes_on) prompt.Begin("");
  for (const ChatMessage& message : messages) {
    const bool generated = message.role == ChatRole::kAssistant;
    if (generated) prompt.Cut();
    prompt.Text(message.content);
    if (generated) prompt.Cut();
  }
  return absl::OkStatus();
}

std::string_view RwkvName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "System:";
    case ChatRole::kUser:
      return "User:";
    case ChatRole::kAssistant:
      return "Assistant:";
  }
  return "";
}

// A blank line ends a turn, so what is said must not hold one, as BlinkDL's own demos see to
// (RWKV-LM, API_DEMO_CHAT.py).
std::string WithoutBlankLines(const std::string& content) {
  std::string text;
  for (const char c : Trimmed(content)) {
    if (c == '\r' || (c == '\n' && text.ends_with('\n'))) continue;
    text += c;
  }
  return text;
}

// "User: …\n\nAssistant: …\n\n", after the token 0 with which RWKV's texts begin.
absl::Status WriteRwkv(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  bool open = place.goes_on;  // The last turn may not have been closed.
  if (!place.goes_on) {
    prompt.Begin("");
    const Tokenizer& tokenizer = prompt.tokenizer();
    if (tokenizer.kind() == "rwkv" && tokenizer.start_ids().empty()) prompt.Token(0);
  }
  for (const ChatMessage& message : messages) {
    const std::string_view name = RwkvName(message.role);
    if (std::exchange(open, false)) {
      prompt.CloseWithText("\n\n" + std::string(name));
    } else {
      prompt.Text(name);
    }
    if (message.role == ChatRole::kAssistant) {
      prompt.Cut();
      prompt.Text(" " + message.content);
      prompt.Cut();
    } else {
      prompt.Text(" " + WithoutBlankLines(message.content));
    }
    prompt.Text("\n\n");
  }
  prompt.Text("Assistant:");
  return absl::OkStatus();
}

// "<|im_start|>user\n…<|im_end|>\n"
absl::Status WriteChatMl(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  if (place.goes_on) {
    prompt.CloseWithMark("<|im_end|>");
    prompt.Text("\n");
  } else {
    prompt.Begin("");
  }
  for (const ChatMessage& message : messages) {
    prompt.Mark("<|im_start|>");
    prompt.Text(LowerRole(message.role));
    prompt.Text("\n");
    if (message.role == ChatRole::kAssistant) prompt.Cut();
    prompt.Text(message.content);
    if (message.role == ChatRole::kAssistant) prompt.Cut();
    prompt.Mark("<|im_end|>");
    prompt.Text("\n");
  }
  prompt.Mark("<|im_start|>");
  prompt.Text("assistant\n");
  return absl::OkStatus();
}

void WriteLlama3Header(ChatRole role, ChatPromptBuilder& prompt) {
  prompt.Mark("<|start_header_id|>");
  prompt.Text(LowerRole(role));
  prompt.Mark("<|end_header_id|>");
  prompt.Text("\n\n");
}

// "<|start_header_id|>user<|end_header_id|>\n\n…<|eot_id|>"
absl::Status WriteLlama3(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  if (place.goes_on) {
    prompt.CloseWithMark("<|eot_id|>");
  } else {
    prompt.Begin("<|begin_of_text|>");
  }
  for (const ChatMessage& message : messages) {
    WriteLlama3Header(message.role, prompt);
    if (message.role == ChatRole::kAssistant) prompt.Cut();
    prompt.Text(Trimmed(message.content));
    prompt.Mark("<|eot_id|>");
  }
  WriteLlama3Header(ChatRole::kAssistant, prompt);
  return absl::OkStatus();
}

// What Llama 2 and Mistral differ in.
struct InstStyle {
  std::string_view system_before;
  std::string_view system_after;
  std::string_view answer_end;  // Between an answer and the end-of-text token.
  bool begins_every_turn;       // With the BOS.
};

// "[INST] … [/INST] …</s>": turns of the user and the assistant, one after the other; a system message
// goes into the first of the user's.
absl::Status WriteInst(Messages messages, const ChatPlace& place, const InstStyle& style,
                       ChatPromptBuilder& prompt) {
  std::string system;
  bool user_next = true;
  bool begun = false;
  if (place.goes_on && place.end_token >= 0) prompt.CloseWithToken(place.end_token);
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (i == 0 && message.role == ChatRole::kSystem) {
      system = absl::StrCat(std::string(style.system_before), message.content,
                            std::string(style.system_after));
      continue;
    }
    if ((message.role == ChatRole::kUser) != user_next || message.role == ChatRole::kSystem) {
      return InvalidField(absl::StrCat("messages[", i, "].role"),
                          "after an optional system message, this model's turns are user and "
                          "assistant in alternation");
    }
    user_next = !user_next;
    if (message.role == ChatRole::kAssistant) {
      prompt.Cut();
      prompt.Text(" " + Trimmed(message.content));
      prompt.Cut();
      prompt.Text(style.answer_end);
      if (place.end_token >= 0) prompt.Token(place.end_token);
      continue;
    }
    if (style.begins_every_turn || !(begun || place.goes_on)) prompt.Begin("<s>");
    prompt.Cut();
    prompt.Restart();
    prompt.Mark("[INST]");
    prompt.Text(absl::StrCat(" ", Trimmed(std::exchange(system, "") + message.content), " "));
    prompt.Mark("[/INST]");
    begun = true;
  }
  if (user_next) return InvalidField("messages", "the last message must be the user's");
  return absl::OkStatus();
}

absl::Status WriteLlama2(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  return WriteInst(messages, place,
                   {.system_before = "<<SYS>>\n",
                    .system_after = "\n<</SYS>>\n\n",
                    .answer_end = " ",
                    .begins_every_turn = true},
                   prompt);
}

absl::Status WriteMistral(Messages messages, const ChatPlace& place, ChatPromptBuilder& prompt) {
  return WriteInst(
      messages, place,
      {.system_before = "", .system_after = "\n\n", .answer_end = "", .begins_every_turn = false},
      prompt);
}

constexpr std::array<ChatTemplate, 6> kTemplates = {{
    {"plain", WritePlain, "", "", ""},
    {"rwkv", WriteRwkv, " ", "", "\n\nUser:"},
    {"chatml", WriteChatMl, "", "<|im_end|>", ""},
    {"llama2", WriteLlama2, " ", "", ""},
    {"mistral", WriteMistral, " ", "", ""},
    {"llama3", WriteLlama3, "", "<|eot_id|>", ""},
}};

}  // namespace

std::span<const ChatTemplate> ChatTemplates() { return kTemplates; }

const ChatTemplate* FindChatTemplate(std::string_view name) {
  const auto* found = std::ranges::find(kTemplates, name, &ChatTemplate::name);
  return found == kTemplates.end() ? nullptr : found;
}

absl::StatusOr<std::vector<int32_t>> RenderChat(const ChatTemplate& chat_template,
                                                const Tokenizer& tokenizer,
                                                std::span<const ChatMessage> messages,
                                                std::vector<int32_t> tail, int32_t end_token) {
  const ChatPlace place = {.goes_on = !tail.empty(), .end_token = end_token};
  ChatPromptBuilder prompt =
      place.goes_on ? ChatPromptBuilder(tokenizer, std::move(tail)) : ChatPromptBuilder(tokenizer);
  FERMATA_RETURN_IF_ERROR(chat_template.write(messages, place, prompt));
  return prompt.Take();
}

void AddStops(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
              v1::SamplingParams& sampling) {
  if (!chat_template.stop_mark.empty()) {
    const auto id = ChatPromptBuilder(tokenizer).IdOf(chat_template.stop_mark);
    if (id.has_value()) {
      sampling.add_stop_token_ids(*id);
    } else {
      sampling.add_stop(std::string(chat_template.stop_mark));
    }
  }
  if (chat_template.stop_text.empty()) return;
  sampling.add_stop(std::string(chat_template.stop_text));
  if (tokenizer.kind() == "rwkv") sampling.add_stop_token_ids(0);
}

}  // namespace fermata
