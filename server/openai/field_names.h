#ifndef FERMATA_SERVER_OPENAI_FIELD_NAMES_H_
#define FERMATA_SERVER_OPENAI_FIELD_NAMES_H_

#include <map>
#include <string>

#include "absl/status/status.h"

namespace fermata {

// What fields of a turn's request are called in the request that it was made of:
// {"sampling.top_p", "top_p"}.
using FieldNames = std::map<std::string, std::string, std::less<>>;

// Names that both dialects share.
FieldNames CommonFieldNames();

// `status`, with the field that it names called as in `names`, whatever follows its name ("[3]").
// Other statuses are as they were.
absl::Status RenameField(const absl::Status& status, const FieldNames& names);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_FIELD_NAMES_H_
