#include "server/openai/field_names.h"

#include <string_view>

#include "engine/base/error.h"

namespace fermata {

FieldNames CommonFieldNames() {
  FieldNames names = {{"sampling.min_new_tokens", "min_tokens"},
                      {"session.id", "session"},
                      {"id", "session"},
                      {"session.durability", "durability"},
                      {"session.expected_position", "expected_position"},
                      {"tenant", "user"},
                      {"request_id", "Idempotency-Key"}};
  for (const char* same :
       {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
        "frequency_penalty", "logit_bias", "stop_token_ids", "ignore_eos", "stop", "seed"}) {
    names.emplace(std::string("sampling.") + same, same);
  }
  return names;
}

absl::Status RenameField(const absl::Status& status, const FieldNames& names) {
  if (!absl::IsInvalidArgument(status)) return status;
  const ErrorDetails details = DetailsOf(status);
  const auto field = details.metadata.find("field");
  if (field == details.metadata.end()) return status;
  const std::string& old = field->second;
  const size_t bracket = old.find('[');
  const auto known = names.find(std::string_view(old).substr(0, bracket));
  if (known == names.end()) return status;
  const std::string_view index =
      bracket == std::string::npos ? std::string_view() : std::string_view(old).substr(bracket);
  // The message reads "<field>: <why>".
  std::string_view why(status.message().data(), status.message().size());
  if (why.starts_with(old + ": ")) why.remove_prefix(old.size() + 2);
  return InvalidField(known->second + std::string(index), why);
}

}  // namespace fermata
