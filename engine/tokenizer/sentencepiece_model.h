#ifndef FERMATA_ENGINE_TOKENIZER_SENTENCEPIECE_MODEL_H_
#define FERMATA_ENGINE_TOKENIZER_SENTENCEPIECE_MODEL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tokenizer/tokenizer_data.h"

namespace fermata {

// Reads a SentencePiece model (sentencepiece_model.proto, google/sentencepiece) of the type BPE that
// changes nothing of a text but its spaces, as those of Llama and Mistral. `source` names the file
// in errors: INVALID_ARGUMENT that says which field is broken or not supported.
//
// The library itself can not be used: Debian's carries a Protocol Buffers runtime of its own,
// version 3.14, whose symbols clash with the 3.21 that gRPC brings, and the process ends at its
// start.
absl::StatusOr<TokenizerData> ReadSentencePieceModel(std::string_view bytes,
                                                     const std::string& source);

}  // namespace fermata

#endif  // FERMATA_ENGINE_TOKENIZER_SENTENCEPIECE_MODEL_H_
