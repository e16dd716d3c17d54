#ifndef FERMATA_ENGINE_TOKENIZER_PYTHON_LITERAL_H_
#define FERMATA_ENGINE_TOKENIZER_PYTHON_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// The bytes of a Python string or bytes literal, as repr() writes them: 'a', "it's", b'\xff'; a
// string's bytes are its UTF-8. Nothing is executed. Known escapes: \\ \' \" \a \b \f \n \r \t \v
// \xHH, and in strings \uHHHH and \UHHHHHHHH. INVALID_ARGUMENT that says why for anything else.
absl::StatusOr<std::string> ParsePythonLiteral(std::string_view literal);

// The bytes of what stands between the quotes of a bytes literal, or of a string literal when
// `is_string` is set.
absl::StatusOr<std::string> UnescapePython(std::string_view body, bool is_string);

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_PYTHON_LITERAL_H_
