#ifndef FERMATA_ENGINE_FORMATS_GGUF_H_
#define FERMATA_ENGINE_FORMATS_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/formats/stored_tensor.h"

namespace fermata {

// A GGUF file (github.com/ggml-org/ggml docs/gguf.md): typed metadata and tensors. A view of the
// file's bytes, which must outlive it. Immutable, so thread-safe.
//
// Accessors are typed as ConfigReader's are: integers of any width and sign are one kind, and a
// number may be an integer; strings are nothing else, nor are booleans. A key that is absent takes
// the fallback, and is an error where there is none. Every error is INVALID_ARGUMENT and names the
// file and the key.
class GgufFile {
 public:
  // Reads versions 2 and 3, little-endian. Strict: every length, count, offset and product is
  // checked against the file, keys and tensor names stand once, strings are UTF-8, tensors fill the
  // data section but for padding. Shapes are turned round to row-major (GGUF writes the fastest
  // extent first). Element types that can not be widened are listed all the same; ids of types that
  // ggml does not define are errors. INVALID_ARGUMENT that begins with `source` and names the key,
  // the tensor or the offset; any bytes at all are safe.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> file, std::string_view source);

  const StoredTensors& tensors() const { return tensors_; }
  uint32_t version() const { return version_; }
  const std::string& source() const { return source_; }

  bool Has(std::string_view key) const { return values_.contains(key); }
  // All keys in the order of their bytes.
  std::vector<std::string_view> keys() const;

  // An integer in [low, high].
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t low, int64_t high,
                              std::optional<int64_t> fallback = std::nullopt) const;
  // A finite number in [low, high].
  absl::StatusOr<double> Number(std::string_view key, double low, double high,
                                std::optional<double> fallback = std::nullopt) const;
  absl::StatusOr<bool> Bool(std::string_view key,
                            std::optional<bool> fallback = std::nullopt) const;
  absl::StatusOr<std::string> String(std::string_view key,
                                     std::optional<std::string> fallback = std::nullopt) const;
  // Arrays, or one value as an array of one; empty when absent. Strings are views of the file.
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key, int64_t low, int64_t high) const;
  absl::StatusOr<std::vector<double>> Numbers(std::string_view key, double low, double high) const;
  absl::StatusOr<std::vector<std::string_view>> Strings(std::string_view key) const;

  // The error "<source>: key "<key>": <why>", for checks that the accessors do not make.
  absl::Status Error(std::string_view key, std::string_view why) const;

 private:
  friend class GgufParser;

  // As the file numbers them.
  enum class Type : uint32_t {
    kUint8,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64,
  };
  struct Value {
    Type type;  // Of the value, or of each element of the array.
    bool is_array;
    uint64_t count;                    // 1 for what is no array.
    std::span<const std::byte> bytes;  // All elements, as they lie in the file.
  };

  GgufFile() = default;

  const Value* Find(std::string_view key) const;
  // Null when absent and there may be a fallback; an error when it is an array.
  absl::StatusOr<const Value*> FindOne(std::string_view key, bool has_fallback) const;
  absl::StatusOr<int64_t> IntAt(std::string_view key, const Value& value, uint64_t index) const;
  absl::StatusOr<double> NumberAt(std::string_view key, const Value& value, uint64_t index) const;
  absl::Status WrongType(std::string_view key, const Value& value, std::string_view wanted) const;

  std::string source_;
  uint32_t version_ = 0;
  std::map<std::string_view, Value, std::less<>> values_;
  StoredTensors tensors_;
};

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_GGUF_H_
