#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/rwkv_tokenizer.h"
#include "engine/tokenizer/sentencepiece_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_config.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fermata::Tokenizer;

constexpr int64_t kVocabSize = 1000;
constexpr size_t kTextBytes = 200;

// The first byte says what kind of file the others are.
absl::StatusOr<std::unique_ptr<Tokenizer>> Load(char kind, std::string_view file) {
  switch (kind) {
    case 'j':
      return fermata::BpeTokenizer::Parse(file, "input", kVocabSize);
    case 'v':
      return fermata::RwkvTokenizer::Parse(file, "input", kVocabSize, {});
    case 's': {
      const auto data = fermata::ReadSentencePieceModel(file, "input");
      if (!data.ok()) return data.status();
      return Tokenizer::FromData(*data, kVocabSize);
    }
    default: {
      const auto config = fermata::TokenizerConfig::Parse(file, "input", kVocabSize);
      return config.ok() ? absl::UnimplementedError("no tokenizer by itself") : config.status();
    }
  }
}

// What every tokenizer promises, whatever its file: ids in range, and streams that equal the whole.
void Check(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto place : {fermata::TextPlace::kStart, fermata::TextPlace::kContinuation}) {
    const auto ids = tokenizer.Encode(text, /*parse_special=*/true, place);
    fermata::IncrementalDecoder decoder(tokenizer, place);
    std::string stream;
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
      stream += decoder.Append(id);
    }
    stream += decoder.Finish();
    if (stream != tokenizer.Decode(ids, /*keep_special=*/false, place)) std::abort();
  }
}

std::string Escaped(int byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

// Ids 1 to 256 are the bytes.
std::string RwkvVocab() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += std::to_string(byte + 1) + " b'" + Escaped(byte) + "' 1\n";
  }
  return text + "257 'the' 3\n258 '\\u2028' 3\n259 \"it's\\n\" 5\n260 b'\\xe4\\xb8' 2\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Load(input[0], input.substr(1));
  if (tokenizer.ok()) Check(**tokenizer, input.substr(size - std::min(size, kTextBytes)));
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  const std::string llama = R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": true, "normalized": false, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"}, {"type": "NFC"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
      {"type": "Split", "pattern": {"Regex": "\\d|[a-c]+"}, "behavior": "Isolated"}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<s>": 0, "<unk>": 1, "▁": 2, "a": 3, "b": 4, "é": 5, "▁a": 6, "ab": 7,
                "▁ab": 8, "<0x41>": 9},
      "merges": ["▁ a", ["a", "b"], "▁ ab"]}})";
  // Field 1: pieces of a text, a score and a type. Then the trainer's type and the normalizer.
  const std::string model = "\x0A\x0E\x0A\x05<unk>\x15" + std::string(4, '\0') + "\x18\x02" +
                            "\x0A\x0A\x0A\x03▁\x15" + std::string(2, '\0') + "\x80\xBF" +
                            "\x0A\x08\x0A\x01"
                            "a\x15" +
                            std::string(2, '\0') + "\x80\xBF" + "\x0A\x0B\x0A\x04▁a\x15" +
                            std::string(2, '\0') + "\x80\xBE" + "\x12\x02\x18\x02\x1A\x02\x20" +
                            std::string(1, '\0');
  const std::string config = R"({"add_bos_token": true, "bos_token": {"content": "<s>"},
    "added_tokens_decoder": {"0": {"content": "<s>", "lstrip": false, "normalized": false,
                                   "rstrip": false, "single_word": false, "special": true}}})";
  return {"j" + llama, "v" + RwkvVocab(), "s" + model, "c" + config};
}
