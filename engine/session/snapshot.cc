#include "engine/session/snapshot.h"

#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "xxhash.h"

namespace fermata {
namespace {

// FORMAT.md's header.
constexpr std::string_view kMagic("FERMATA\0", 8);
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kVersionAt = 8;
constexpr size_t kRecordBytesAt = 12;
constexpr size_t kStateOffsetAt = 16;
constexpr size_t kStateBytesAt = 24;
constexpr size_t kRecordChecksumAt = 32;
constexpr size_t kStateChecksumAt = 40;
constexpr size_t kReservedAt = 48;
constexpr size_t kHeaderChecksumAt = 56;
constexpr uint64_t kMaxStateBytes = uint64_t{1} << 40;

constexpr int64_t kNone = -1;  // An absent ttl or pending token.

size_t StateOffset(size_t record_bytes) { return (kHeaderBytes + record_bytes + 63) / 64 * 64; }

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

template <typename T>
T LoadAt(std::string_view bytes, size_t offset) {
  static_assert(std::is_integral_v<T>);
  std::make_unsigned_t<T> value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<std::make_unsigned_t<T>>(static_cast<unsigned char>(bytes[offset + i]))
             << (8 * i);
  }
  return static_cast<T>(value);
}

template <typename T>
void Append(std::string& out, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

void AppendString(std::string& out, std::string_view value) {
  Append(out, static_cast<uint32_t>(value.size()));
  out.append(value);
}

std::string EncodeRecord(const SessionRecord& record) {
  std::string out;
  Append(out, record.position);
  Append(out, record.turns);
  Append(out, absl::ToUnixNanos(record.create_time));
  Append(out, absl::ToUnixNanos(record.update_time));
  Append(out, record.ttl.has_value() ? absl::ToInt64Nanoseconds(*record.ttl) : kNone);
  Append(out, record.pending_token.value_or(kNone));
  Append(out, static_cast<uint32_t>(record.labels.size()));
  AppendString(out, record.id);
  AppendString(out, record.model_fingerprint);
  AppendString(out, record.sampler_memory);
  for (const auto& [key, value] : record.labels) {
    AppendString(out, key);
    AppendString(out, value);
  }
  return out;
}

absl::Status Damaged(size_t offset, std::string_view why) {
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat("snapshot damaged at byte ", offset, ": ",
                                absl::string_view(why.data(), why.size())),
                   {.reason = "SNAPSHOT_DAMAGED",
                    .metadata = {{"offset", std::to_string(offset)}},
                    .retry_after = {}});
}

// Reads a record's fields one after another; after the first that does not fit, ok() is false and
// all that follow read as zero.
class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Int() {
    if (!Has(sizeof(T))) return 0;
    const T value = LoadAt<T>(bytes_, offset_);
    offset_ += sizeof(T);
    return value;
  }

  std::string String(size_t max_bytes) {
    const size_t length = Int<uint32_t>();
    if (length > max_bytes || !Has(length)) {
      ok_ = false;
      return {};
    }
    std::string value(bytes_.substr(offset_, length));
    offset_ += length;
    return value;
  }

  bool ok() const { return ok_; }
  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == bytes_.size(); }

 private:
  bool Has(size_t count) {
    ok_ = ok_ && count <= bytes_.size() - offset_;
    return ok_;
  }

  std::string_view bytes_;
  size_t offset_ = 0;
  bool ok_ = true;
};

absl::StatusOr<SessionRecord> DecodeRecord(std::string_view bytes) {
  RecordReader reader(bytes);
  SessionRecord record;
  record.position = reader.Int<int64_t>();
  record.turns = reader.Int<uint64_t>();
  record.create_time = absl::FromUnixNanos(reader.Int<int64_t>());
  record.update_time = absl::FromUnixNanos(reader.Int<int64_t>());
  if (const auto ttl = reader.Int<int64_t>(); ttl != kNone) record.ttl = absl::Nanoseconds(ttl);
  if (const auto token = reader.Int<int32_t>(); token != kNone) record.pending_token = token;
  const auto label_count = reader.Int<uint32_t>();
  record.id = reader.String(kMaxSessionIdBytes);
  record.model_fingerprint = reader.String(kMaxFingerprintBytes);
  record.sampler_memory = reader.String(kMaxSamplerMemoryBytes);
  for (uint32_t i = 0; i < label_count && reader.ok(); ++i) {
    std::string key = reader.String(kMaxLabelKeyBytes);
    std::string value = reader.String(kMaxLabelValueBytes);
    if (!record.labels.empty() && key <= record.labels.rbegin()->first) {
      return Damaged(kHeaderBytes + reader.offset(), "labels out of order");
    }
    record.labels.emplace_hint(record.labels.end(), std::move(key), std::move(value));
  }
  if (!reader.ok() || !reader.at_end()) {
    return Damaged(kHeaderBytes + reader.offset(), "a record field does not fit");
  }
  if (const absl::Status status = CheckRecord(record); !status.ok()) {
    return Damaged(kHeaderBytes, std::string(status.message()));
  }
  return record;
}

// What the header says, once it is known to be whole and of a version that we read.
struct Header {
  size_t record_bytes;
  size_t state_offset;
  size_t state_bytes;
  uint64_t record_checksum;
  uint64_t state_checksum;
};

absl::StatusOr<Header> DecodeHeader(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return Damaged(bytes.size(), "the header is cut off");
  if (bytes.substr(0, kMagic.size()) != kMagic) return Damaged(0, "not a snapshot");
  if (Checksum(bytes.substr(0, kHeaderChecksumAt)) != LoadAt<uint64_t>(bytes, kHeaderChecksumAt)) {
    return Damaged(kHeaderChecksumAt, "the header does not match its checksum");
  }
  if (const auto version = LoadAt<uint32_t>(bytes, kVersionAt); version != kVersion) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("snapshot of format version ", version, "; this build reads ", kVersion),
        {.reason = "SNAPSHOT_VERSION",
         .metadata = {{"version", std::to_string(version)}},
         .retry_after = {}});
  }
  Header header{.record_bytes = LoadAt<uint32_t>(bytes, kRecordBytesAt),
                .state_offset = LoadAt<uint64_t>(bytes, kStateOffsetAt),
                .state_bytes = LoadAt<uint64_t>(bytes, kStateBytesAt),
                .record_checksum = LoadAt<uint64_t>(bytes, kRecordChecksumAt),
                .state_checksum = LoadAt<uint64_t>(bytes, kStateChecksumAt)};
  if (header.record_bytes > kMaxRecordBytes) return Damaged(kRecordBytesAt, "record too long");
  if (header.state_offset != StateOffset(header.record_bytes)) {
    return Damaged(kStateOffsetAt, "the state is not where the record ends");
  }
  if (header.state_bytes > kMaxStateBytes) return Damaged(kStateBytesAt, "state too long");
  if (LoadAt<uint64_t>(bytes, kReservedAt) != 0) return Damaged(kReservedAt, "not zero");
  if (bytes.size() < header.state_offset) return Damaged(bytes.size(), "the record is cut off");
  return header;
}

}  // namespace

absl::Status CheckRecord(const SessionRecord& record) {
  if (record.id.empty() || record.id.size() > kMaxSessionIdBytes) {
    return InvalidField("id", "must have 1 to 128 bytes");
  }
  if (record.model_fingerprint.size() > kMaxFingerprintBytes) {
    return InvalidField("model_fingerprint", "too long");
  }
  if (record.sampler_memory.size() > kMaxSamplerMemoryBytes) {
    return InvalidField("sampler_memory", "too long");
  }
  if (record.position < 0) return InvalidField("position", "negative");
  if (record.pending_token.value_or(0) < 0) return InvalidField("pending_token", "negative");
  if (record.position > 0 && !record.pending_token.has_value()) {
    return InvalidField("pending_token", "missing, though the position is not 0");
  }
  if (record.ttl.has_value() && *record.ttl < absl::Nanoseconds(1)) {
    return InvalidField("ttl", "must be more than 0");
  }
  if (record.labels.size() > kMaxLabels) return InvalidField("labels", "more than 32");
  for (const auto& [key, value] : record.labels) {
    if (key.empty() || key.size() > kMaxLabelKeyBytes || value.size() > kMaxLabelValueBytes) {
      return InvalidField("labels", "a key or value is empty or too long");
    }
  }
  return absl::OkStatus();
}

uint64_t StateChecksum(std::span<const std::byte> state) {
  return XXH3_64bits(state.data(), state.size());
}

std::string EncodeSnapshotHead(const SessionRecord& record, size_t state_bytes,
                               uint64_t state_checksum) {
  assert(CheckRecord(record).ok());
  const std::string encoded = EncodeRecord(record);
  const size_t state_offset = StateOffset(encoded.size());
  std::string out;
  out.reserve(state_offset);
  out.append(kMagic);
  Append(out, kVersion);
  Append(out, static_cast<uint32_t>(encoded.size()));
  Append(out, static_cast<uint64_t>(state_offset));
  Append(out, static_cast<uint64_t>(state_bytes));
  Append(out, Checksum(encoded));
  Append(out, state_checksum);
  Append(out, uint64_t{0});
  Append(out, Checksum(out));
  out.append(encoded);
  out.resize(state_offset);
  return out;
}

absl::StatusOr<SnapshotHead> DecodeSnapshotHead(std::string_view bytes) {
  FERMATA_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes));
  const std::string_view record = bytes.substr(kHeaderBytes, header.record_bytes);
  if (Checksum(record) != header.record_checksum) {
    return Damaged(kHeaderBytes, "the record does not match its checksum");
  }
  const size_t record_end = kHeaderBytes + header.record_bytes;
  for (size_t i = record_end; i < header.state_offset; ++i) {
    if (bytes[i] != 0) return Damaged(i, "the padding is not zero");
  }
  SnapshotHead head{.record = {},
                    .size = header.state_offset,
                    .state_bytes = header.state_bytes,
                    .state_checksum = header.state_checksum};
  FERMATA_ASSIGN_OR_RETURN(head.record, DecodeRecord(record));
  return head;
}

std::string EncodeSnapshot(const SessionRecord& record, std::span<const std::byte> state) {
  std::string out = EncodeSnapshotHead(record, state.size(), StateChecksum(state));
  out.append(reinterpret_cast<const char*>(state.data()), state.size());
  return out;
}

absl::StatusOr<DecodedSnapshot> DecodeSnapshot(std::string_view bytes) {
  FERMATA_ASSIGN_OR_RETURN(SnapshotHead head, DecodeSnapshotHead(bytes));
  const size_t there = bytes.size() - head.size;
  if (there < head.state_bytes) return Damaged(bytes.size(), "the state is cut off");
  if (there > head.state_bytes) {
    return Damaged(head.size + head.state_bytes, "bytes after the state");
  }
  const std::span<const std::byte> state(
      reinterpret_cast<const std::byte*>(bytes.data()) + head.size, head.state_bytes);
  if (StateChecksum(state) != head.state_checksum) return DamagedState(head.size);
  return DecodedSnapshot{.record = std::move(head.record), .state = state};
}

absl::Status DamagedState(size_t offset) {
  return Damaged(offset, "the state does not match its checksum");
}

}  // namespace fermata
