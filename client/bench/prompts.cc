#include "client/bench/prompts.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/bench/lines.h"

namespace fermata::bench {
namespace {

absl::StatusOr<Dialogue> ParseObject(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    for (const char* field : {"prompt", "turns", "messages", "instruction"}) {
      if (!json.contains(field)) continue;
      const auto& value = json[field];
      if (value.is_string()) return Dialogue{value.get<std::string>()};
      if (std::string_view(field) == "turns") return value.get<Dialogue>();
      Dialogue dialogue;
      for (const auto& message : value) {
        if (message.at("role") == "user") dialogue.push_back(message.at("content"));
      }
      return dialogue;
    }
    return absl::InvalidArgumentError("has no prompt, turns, messages or instruction");
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

absl::StatusOr<std::vector<Dialogue>> ParsePrompts(std::string_view text,
                                                   const std::string& source) {
  const bool json = text.starts_with('{');
  std::vector<Dialogue> dialogues;
  Lines lines(text);
  while (const auto line = lines.Next()) {
    if (line->empty()) continue;
    absl::StatusOr<Dialogue> dialogue = json ? ParseObject(*line) : Dialogue{std::string(*line)};
    if (!dialogue.ok()) return lines.Error(source, dialogue.status().message());
    const bool empty = std::ranges::any_of(*dialogue, &std::string::empty);
    if (dialogue->empty() || empty) return lines.Error(source, "a prompt is empty");
    dialogues.push_back(*std::move(dialogue));
  }
  if (dialogues.empty()) return absl::InvalidArgumentError(source + ": has no prompt");
  return dialogues;
}

}  // namespace fermata::bench
