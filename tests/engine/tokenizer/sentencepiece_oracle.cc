#include "tests/engine/tokenizer/sentencepiece_oracle.h"

#include <stdexcept>

#include "sentencepiece_processor.h"

namespace fermata {

struct SentencePieceOracle::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceOracle::SentencePieceOracle(const std::string& path)
    : processor_(std::make_unique<Processor>()) {
  const auto status = processor_->library.Load(path);
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

SentencePieceOracle::~SentencePieceOracle() = default;

std::vector<int> SentencePieceOracle::Encode(const std::string& text) const {
  return processor_->library.EncodeAsIds(text);
}

std::string SentencePieceOracle::Decode(const std::vector<int>& ids) const {
  return processor_->library.DecodeIds(ids);
}

std::vector<std::string> SentencePieceOracle::Pieces() const {
  std::vector<std::string> pieces;
  for (int id = 0; id < processor_->library.GetPieceSize(); ++id) {
    pieces.push_back(processor_->library.IdToPiece(id));
  }
  return pieces;
}

std::vector<float> SentencePieceOracle::Scores() const {
  std::vector<float> scores;
  for (int id = 0; id < processor_->library.GetPieceSize(); ++id) {
    scores.push_back(processor_->library.GetScore(id));
  }
  return scores;
}

std::vector<int> SentencePieceOracle::Types() const {
  const auto& library = processor_->library;
  std::vector<int> types;
  for (int id = 0; id < library.GetPieceSize(); ++id) {
    const int type = library.IsUnknown(id)   ? 2
                     : library.IsControl(id) ? 3
                     : library.IsUnused(id)  ? 5
                     : library.IsByte(id)    ? 6
                                             : 1;
    types.push_back(type);
  }
  return types;
}

}  // namespace fermata
