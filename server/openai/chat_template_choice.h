#ifndef FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_CHOICE_H_
#define FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_CHOICE_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/openai/chat_template.h"

namespace fermata {

// The model's own template, in Jinja, of a directory or a GGUF file: chat_template.jinja, or the field
// of tokenizer_config.json, or the key of the GGUF. Nullopt when there is none. INVALID_ARGUMENT for a
// file that is broken.
absl::StatusOr<std::optional<std::string>> ReadJinjaTemplate(const std::string& model_path);

// The template that a Jinja text is, told by the marks that it writes; null when it is none of ours.
const ChatTemplate* RecognizeJinja(std::string_view jinja);

// The template for a model: that of `name`, or for "auto" that which the model's own is recognised as;
// for models that bring none, the one whose special tokens they have, RWKV's for its family, and plain.
// FAILED_PRECONDITION with reason CHAT_TEMPLATE_UNKNOWN for one of the model's own that is not
// recognised: it says what can be named instead.
absl::StatusOr<const ChatTemplate*> ChooseChatTemplate(std::string_view name,
                                                       const std::string& model_path,
                                                       const ModelInfo& model,
                                                       const Tokenizer& tokenizer);

// "plain, rwkv, …"
std::string ChatTemplateNames();

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_CHAT_TEMPLATE_CHOICE_H_
