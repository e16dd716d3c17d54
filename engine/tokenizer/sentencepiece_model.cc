#include "engine/tokenizer/sentencepiece_model.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/status.h"

namespace fermata {
namespace {

// A field of a Protocol Buffers message in its wire format.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // Of a varint, or the bits of a fixed number.
  std::string_view bytes;  // Of a string or a message.
};

// Takes fields off the front of a message.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  bool done() const { return rest_.empty(); }

  // nullopt when the message is broken.
  std::optional<Field> Next() {
    const std::optional<uint64_t> tag = Varint();
    if (!tag.has_value() || *tag >> 3 == 0 || *tag >> 32 != 0) return std::nullopt;
    Field field{.number = static_cast<uint32_t>(*tag >> 3)};
    std::optional<uint64_t> value;
    switch (*tag & 7) {
      case 0:
        value = Varint();
        break;
      case 1:
        value = Fixed(8);
        break;
      case 5:
        value = Fixed(4);
        break;
      case 2:
        value = Varint();
        if (!value.has_value() || *value > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, *value);
        rest_.remove_prefix(*value);
        break;
      default:
        return std::nullopt;
    }
    if (!value.has_value()) return std::nullopt;
    field.value = *value;
    return field;
  }

 private:
  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::optional<uint64_t> Fixed(size_t size) {
    if (rest_.size() < size) return std::nullopt;
    uint64_t value = 0;
    std::memcpy(&value, rest_.data(), size);  // Little-endian, as all machines we run on.
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
};

// Calls `field` with each field of a message. False when it is broken, or `field` says so.
template <typename OnField>
bool ForEachField(std::string_view message, OnField on_field) {
  FieldReader reader(message);
  while (!reader.done()) {
    const std::optional<Field> field = reader.Next();
    if (!field.has_value() || !on_field(*field)) return false;
  }
  return true;
}

// The fields of the trainer and the normalizer that matter here, with their defaults.
struct Spec {
  uint64_t model_type = 1;
  bool whitespace_as_suffix = false;
  std::string_view charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::string_view bos_piece = "<s>";
};

bool ParseTrainer(std::string_view message, Spec& spec) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 3) spec.model_type = field.value;
    if (field.number == 24) spec.whitespace_as_suffix = field.value != 0;
    if (field.number == 46) spec.bos_piece = field.bytes;
    return true;
  });
}

bool ParseNormalizer(std::string_view message, Spec& spec) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 2) spec.charsmap = field.bytes;
    if (field.number == 3) spec.add_dummy_prefix = field.value != 0;
    if (field.number == 4) spec.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) spec.escape_whitespaces = field.value != 0;
    return true;
  });
}

bool ParsePiece(std::string_view message, TokenizerData& data) {
  std::string_view piece;
  float score = 0;
  uint64_t type = kNormalToken;
  const bool whole = ForEachField(message, [&](const Field& field) {
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) type = field.value;
    return true;
  });
  if (!whole || piece.empty() || type < kNormalToken || type > kByteToken) return false;
  data.tokens.emplace_back(piece);
  data.scores.push_back(score);
  data.types.push_back(static_cast<int32_t>(type));
  return true;
}

// Why the model can not be used, or nothing.
std::string_view Unsupported(const Spec& spec, const TokenizerData& data) {
  if (spec.model_type != 2) return "trainer_spec.model_type: only BPE is supported";
  if (spec.whitespace_as_suffix) {
    return "trainer_spec.treat_whitespace_as_suffix: is not supported";
  }
  if (!spec.charsmap.empty()) return "normalizer_spec.precompiled_charsmap: is not supported";
  if (spec.remove_extra_whitespaces) {
    return "normalizer_spec.remove_extra_whitespaces: is not supported";
  }
  if (!spec.escape_whitespaces) return "normalizer_spec.escape_whitespaces: must be set";
  for (const int32_t type : data.types) {
    if (type == kUnusedToken) return "pieces: unused ones are not supported";
  }
  return {};
}

}  // namespace

absl::StatusOr<TokenizerData> ReadSentencePieceModel(std::string_view bytes,
                                                     const std::string& source) {
  TokenizerData data;
  data.source = source;
  data.model = "llama";
  Spec spec;
  std::string broken = "is not a SentencePiece model, or cut short";
  const bool whole = ForEachField(bytes, [&](const Field& field) {
    bool good = true;
    if (field.number == 1) {
      good = ParsePiece(field.bytes, data);
      if (!good) broken = "pieces[" + std::to_string(data.tokens.size()) + "]: is broken";
    } else if (field.number == 2) {
      good = ParseTrainer(field.bytes, spec);
      if (!good) broken = "trainer_spec: is broken";
    } else if (field.number == 3) {
      good = ParseNormalizer(field.bytes, spec);
      if (!good) broken = "normalizer_spec: is broken";
    }
    return good;
  });
  if (whole && data.tokens.empty()) broken = "has no pieces";
  if (!whole || data.tokens.empty()) {
    return absl::InvalidArgumentError(source + ": " + broken);
  }
  if (const std::string_view why = Unsupported(spec, data); !why.empty()) {
    return absl::InvalidArgumentError(source + ": " + std::string(why));
  }
  data.add_space_prefix = spec.add_dummy_prefix;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (data.types[id] == kControlToken && data.tokens[id] == spec.bos_piece) {
      data.bos = static_cast<int32_t>(id);
    }
  }
  return data;
}

}  // namespace fermata
