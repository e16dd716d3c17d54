#ifndef FERMATA_ENGINE_TOKENIZER_GGUF_TOKENIZER_H_
#define FERMATA_ENGINE_TOKENIZER_GGUF_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "engine/formats/gguf.h"
#include "engine/tokenizer/tokenizer_data.h"

namespace fermata {

// What a GGUF file says under tokenizer.ggml. INVALID_ARGUMENT that names the file and the key.
absl::StatusOr<TokenizerData> ReadTokenizerData(const GgufFile& file);

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_GGUF_TOKENIZER_H_
