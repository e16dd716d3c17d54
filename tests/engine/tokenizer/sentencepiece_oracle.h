#ifndef FERMATA_TESTS_ENGINE_TOKENIZER_SENTENCEPIECE_ORACLE_H_
#define FERMATA_TESTS_ENGINE_TOKENIZER_SENTENCEPIECE_ORACLE_H_

#include <memory>
#include <string>
#include <vector>

namespace fermata {

// The sentencepiece library. Its header is kept to one file: it declares another absl::string_view
// than Abseil's.
class SentencePieceOracle {
 public:
  // Throws std::runtime_error when the file can not be loaded.
  explicit SentencePieceOracle(const std::string& path);
  ~SentencePieceOracle();

  std::vector<int> Encode(const std::string& text) const;
  std::string Decode(const std::vector<int>& ids) const;

  std::vector<std::string> Pieces() const;
  std::vector<float> Scores() const;
  // In the numbers of the model's file.
  std::vector<int> Types() const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace fermata

#endif  // FERMATA_TESTS_ENGINE_TOKENIZER_SENTENCEPIECE_ORACLE_H_
