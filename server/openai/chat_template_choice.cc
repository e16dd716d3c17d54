#include "server/openai/chat_template_choice.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/mapped_file.h"
#include "engine/base/status.h"
#include "engine/formats/gguf.h"
#include "engine/formats/only_file.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A string, or a list of named ones, of which "default" counts.
absl::StatusOr<std::optional<std::string>> FromTokenizerConfig(const std::string& path) {
  FERMATA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  FERMATA_ASSIGN_OR_RETURN(const json config, ParseJson(text, path));
  if (!config.is_object()) return std::nullopt;
  const auto found = config.find("chat_template");
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return std::nullopt;
  for (const json& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto value = entry.find("template");
    if (name != entry.end() && *name == "default" && value != entry.end() && value->is_string()) {
      return value->get<std::string>();
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<std::string>> FromGguf(const std::string& path) {
  constexpr char kKey[] = "tokenizer.chat_template";
  FERMATA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  FERMATA_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::Parse(file.bytes(), path));
  if (!gguf.Has(kKey)) return std::nullopt;
  FERMATA_ASSIGN_OR_RETURN(std::string jinja, gguf.String(kKey));
  return jinja;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> ReadJinjaTemplate(const std::string& model_path) {
  std::error_code ignored;
  if (!fs::is_directory(model_path, ignored)) {
    if (model_path.ends_with(".gguf")) return FromGguf(model_path);
    return ReadJinjaTemplate(fs::path(model_path).parent_path().string());
  }
  const fs::path directory(model_path);
  if (const fs::path jinja = directory / "chat_template.jinja"; fs::exists(jinja, ignored)) {
    FERMATA_ASSIGN_OR_RETURN(std::string text, ReadFile(jinja.string()));
    return text;
  }
  if (const fs::path config = directory / "tokenizer_config.json"; fs::exists(config, ignored)) {
    FERMATA_ASSIGN_OR_RETURN(auto jinja, FromTokenizerConfig(config.string()));
    if (jinja.has_value()) return jinja;
  }
  FERMATA_ASSIGN_OR_RETURN(const std::string gguf, OnlyFile(model_path, ".gguf"));
  if (gguf.empty()) return std::nullopt;
  return FromGguf((directory / gguf).string());
}

const ChatTemplate* RecognizeJinja(std::string_view jinja) {
  if (Contains(jinja, "<|im_start|>") && Contains(jinja, "<|im_end|>")) {
    return FindChatTemplate("chatml");
  }
  if (Contains(jinja, "<|start_header_id|>") && Contains(jinja, "<|eot_id|>")) {
    return FindChatTemplate("llama3");
  }
  if (Contains(jinja, "[INST]") && Contains(jinja, "[/INST]")) {
    return FindChatTemplate(Contains(jinja, "<<SYS>>") ? "llama2" : "mistral");
  }
  if (Contains(jinja, "User: ") && Contains(jinja, "Assistant:") && !Contains(jinja, "<|")) {
    return FindChatTemplate("rwkv");
  }
  if (Contains(jinja, "rwkv_tokenizer_end_of_text") && Contains(jinja, "User: ")) {
    return FindChatTemplate("rwkv");
  }
  return nullptr;
}

absl::StatusOr<const ChatTemplate*> ChooseChatTemplate(std::string_view name,
                                                       const std::string& model_path,
                                                       const ModelInfo& model,
                                                       const Tokenizer& tokenizer) {
  if (name != "auto") {
    const ChatTemplate* named = FindChatTemplate(name);
    if (named != nullptr) return named;
    return absl::InvalidArgumentError(
        absl::StrCat("--chat_template: must be auto, or one of ", ChatTemplateNames()));
  }
  FERMATA_ASSIGN_OR_RETURN(const auto jinja, ReadJinjaTemplate(model_path));
  if (jinja.has_value()) {
    const ChatTemplate* own = RecognizeJinja(*jinja);
    if (own != nullptr) return own;
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "the model's own chat template is none that this server can write; start it "
                     "with --chat_template=NAME, where NAME is one of " +
                         ChatTemplateNames() + ", to use that one. Completions work without",
                     {.reason = "CHAT_TEMPLATE_UNKNOWN", .metadata = {}, .retry_after = {}});
  }
  const ChatPromptBuilder marks(tokenizer);
  if (marks.IdOf("<|im_start|>").has_value() && marks.IdOf("<|im_end|>").has_value()) {
    return FindChatTemplate("chatml");
  }
  if (marks.IdOf("<|start_header_id|>").has_value() && marks.IdOf("<|eot_id|>").has_value()) {
    return FindChatTemplate("llama3");
  }
  const bool rwkv = tokenizer.kind() == "rwkv" || model.family.starts_with("rwkv");
  return FindChatTemplate(rwkv ? "rwkv" : "plain");
}

std::string ChatTemplateNames() {
  std::string names;
  for (const ChatTemplate& chat_template : ChatTemplates()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(chat_template.name));
  }
  return names;
}

}  // namespace fermata
