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
constexpr uint16_t kVersion = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kVersionAt = 8;
constexpr size_t kFlagsAt = 10;
constexpr size_t kRecordBytesAt = 12;
constexpr size_t kKeyAt = 16;
constexpr size_t kStateKeyAt = 24;
constexpr size_t kStateBytesAt = 32;
constexpr size_t kStateChecksumAt = 40;
constexpr size_t kRecordChecksumAt = 48;
constexpr size_t kHeaderChecksumAt = 56;
constexpr uint16_t kStateElsewhere = 1;  // In flags.
constexpr uint64_t kMaxStateBytes = uint64_t{1} << 40;

constexpr int64_t kNone = -1;  // An absent ttl, pending token or number of checkpoints.

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
  Append(out, record.revision);
  Append(out, absl::ToUnixNanos(record.create_time));
  Append(out, absl::ToUnixNanos(record.update_time));
  Append(out, record.ttl.has_value() ? absl::ToInt64Nanoseconds(*record.ttl) : kNone);
  Append(out, record.parent_position);
  Append(out, record.pending_token.value_or(kNone));
  Append(out, record.max_checkpoints.value_or(kNone));
  Append(out,
         record.durability.has_value() ? static_cast<uint8_t>(*record.durability) : uint8_t{0});
  Append(out, static_cast<uint8_t>(record.pinned));
  Append(out, static_cast<uint16_t>(record.labels.size()));
  Append(out, static_cast<uint16_t>(record.checkpoints.size()));
  Append(out, uint16_t{0});
  AppendString(out, record.id);
  AppendString(out, record.model_fingerprint);
  AppendString(out, record.parent_id);
  AppendString(out, record.sampler_memory);
  for (const auto& [key, value] : record.labels) {
    AppendString(out, key);
    AppendString(out, value);
  }
  for (const Checkpoint& checkpoint : record.checkpoints) {
    Append(out, checkpoint.snapshot.key);
    Append(out, checkpoint.snapshot.state);
    Append(out, checkpoint.position);
    Append(out, checkpoint.turns);
    Append(out, absl::ToUnixNanos(checkpoint.time));
  }
  return out;
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

// The fields before the first string, which have one place each; all but the counts, which are left
// to the caller.
struct Counts {
  uint16_t labels = 0;
  uint16_t checkpoints = 0;
};

absl::Status DecodeFixed(RecordReader& reader, SessionRecord& record, Counts& counts) {
  record.position = reader.Int<int64_t>();
  record.turns = reader.Int<uint64_t>();
  record.revision = reader.Int<uint64_t>();
  record.create_time = absl::FromUnixNanos(reader.Int<int64_t>());
  record.update_time = absl::FromUnixNanos(reader.Int<int64_t>());
  if (const auto ttl = reader.Int<int64_t>(); ttl != kNone) record.ttl = absl::Nanoseconds(ttl);
  record.parent_position = reader.Int<int64_t>();
  if (const auto token = reader.Int<int32_t>(); token != kNone) record.pending_token = token;
  if (const auto most = reader.Int<int32_t>(); most != kNone) record.max_checkpoints = most;
  const auto durability = reader.Int<uint8_t>();
  const auto pinned = reader.Int<uint8_t>();
  counts.labels = reader.Int<uint16_t>();
  counts.checkpoints = reader.Int<uint16_t>();
  if (durability > static_cast<uint8_t>(Durability::kDisk) || pinned > 1 ||
      reader.Int<uint16_t>() != 0) {
    return DamagedSnapshot(kHeaderBytes + reader.offset(), "a field has no such value");
  }
  if (durability != 0) record.durability = static_cast<Durability>(durability);
  record.pinned = pinned == 1;
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> DecodeRecord(std::string_view bytes) {
  RecordReader reader(bytes);
  SessionRecord record;
  Counts counts;
  FERMATA_RETURN_IF_ERROR(DecodeFixed(reader, record, counts));
  record.id = reader.String(kMaxSessionIdBytes);
  record.model_fingerprint = reader.String(kMaxFingerprintBytes);
  record.parent_id = reader.String(kMaxSessionIdBytes);
  record.sampler_memory = reader.String(kMaxSamplerMemoryBytes);
  for (int i = 0; i < counts.labels && reader.ok(); ++i) {
    std::string key = reader.String(kMaxLabelKeyBytes);
    std::string value = reader.String(kMaxLabelValueBytes);
    if (!record.labels.empty() && key <= record.labels.rbegin()->first) {
      return DamagedSnapshot(kHeaderBytes + reader.offset(), "labels out of order");
    }
    record.labels.emplace_hint(record.labels.end(), std::move(key), std::move(value));
  }
  for (int i = 0; i < counts.checkpoints && reader.ok(); ++i) {
    Checkpoint checkpoint;
    checkpoint.snapshot.key = reader.Int<uint64_t>();
    checkpoint.snapshot.state = reader.Int<uint64_t>();
    checkpoint.position = reader.Int<int64_t>();
    checkpoint.turns = reader.Int<uint64_t>();
    checkpoint.time = absl::FromUnixNanos(reader.Int<int64_t>());
    record.checkpoints.push_back(checkpoint);
  }
  if (!reader.ok() || !reader.at_end()) {
    return DamagedSnapshot(kHeaderBytes + reader.offset(), "a record field does not fit");
  }
  if (const absl::Status status = CheckRecord(record); !status.ok()) {
    return DamagedSnapshot(kHeaderBytes, std::string(status.message()));
  }
  return record;
}

// What the header says, once it is known to be whole and of a version that we read.
struct Header {
  size_t record_bytes;
  uint64_t record_checksum;
  SnapshotName name;
  StateInfo state;
};

absl::Status CheckHeader(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return DamagedSnapshot(bytes.size(), "the header is cut off");
  if (bytes.substr(0, kMagic.size()) != kMagic) return DamagedSnapshot(0, "not a snapshot");
  if (Checksum(bytes.substr(0, kHeaderChecksumAt)) != LoadAt<uint64_t>(bytes, kHeaderChecksumAt)) {
    return DamagedSnapshot(kHeaderChecksumAt, "the header does not match its checksum");
  }
  if (const auto version = LoadAt<uint16_t>(bytes, kVersionAt); version != kVersion) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("snapshot of format version ", version, "; this build reads ", kVersion),
        {.reason = "SNAPSHOT_VERSION",
         .metadata = {{"version", std::to_string(version)}},
         .retry_after = {}});
  }
  return absl::OkStatus();
}

absl::StatusOr<Header> DecodeHeader(std::string_view bytes) {
  FERMATA_RETURN_IF_ERROR(CheckHeader(bytes));
  const auto flags = LoadAt<uint16_t>(bytes, kFlagsAt);
  const Header header{.record_bytes = LoadAt<uint32_t>(bytes, kRecordBytesAt),
                      .record_checksum = LoadAt<uint64_t>(bytes, kRecordChecksumAt),
                      .name = {.key = LoadAt<uint64_t>(bytes, kKeyAt),
                               .state = LoadAt<uint64_t>(bytes, kStateKeyAt)},
                      .state = {.bytes = LoadAt<uint64_t>(bytes, kStateBytesAt),
                                .checksum = LoadAt<uint64_t>(bytes, kStateChecksumAt),
                                .elsewhere = (flags & kStateElsewhere) != 0}};
  const bool exported = header.name.key == 0;
  if (flags > kStateElsewhere || (exported && header.state.elsewhere)) {
    return DamagedSnapshot(kFlagsAt, "no such flags");
  }
  if (header.record_bytes > kMaxRecordBytes) {
    return DamagedSnapshot(kRecordBytesAt, "record too long");
  }
  if (header.name.state > header.name.key || (!exported && header.name.state == 0)) {
    return DamagedSnapshot(kStateKeyAt, "no such state");
  }
  if (header.state.bytes > kMaxStateBytes) return DamagedSnapshot(kStateBytesAt, "state too long");
  if (bytes.size() < StateOffset(header.record_bytes)) {
    return DamagedSnapshot(bytes.size(), "the record is cut off");
  }
  return header;
}

absl::Status CheckCheckpoints(const SessionRecord& record) {
  if (record.max_checkpoints.value_or(0) < 0 ||
      record.max_checkpoints.value_or(0) > kMaxCheckpoints) {
    return InvalidField("max_checkpoints", "must be 0 to 64");
  }
  if (record.checkpoints.size() > kMaxCheckpoints) {
    return InvalidField("checkpoints", "more than 64");
  }
  SnapshotKey last = 0;
  for (const Checkpoint& checkpoint : record.checkpoints) {
    const SnapshotName& name = checkpoint.snapshot;
    if (name.key <= last || name.state == 0 || name.state > name.key || checkpoint.position < 0) {
      return InvalidField("checkpoints", "keys out of order, or a negative position");
    }
    last = name.key;
  }
  return absl::OkStatus();
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
  if (record.parent_id.size() > kMaxSessionIdBytes) return InvalidField("parent_id", "too long");
  if (record.parent_position < 0 || (record.parent_id.empty() && record.parent_position != 0)) {
    return InvalidField("parent_position", "negative, or without a parent");
  }
  return CheckCheckpoints(record);
}

uint64_t StateChecksum(std::span<const std::byte> state) {
  return XXH3_64bits(state.data(), state.size());
}

std::string EncodeSnapshotHead(const SnapshotName& name, const SessionRecord& record,
                               const StateInfo& state) {
  assert(CheckRecord(record).ok());
  assert(name.key != 0 ? name.state != 0 && name.state <= name.key
                       : name.state == 0 && !state.elsewhere && record.checkpoints.empty());
  const std::string encoded = EncodeRecord(record);
  const size_t state_offset = StateOffset(encoded.size());
  std::string out;
  out.reserve(state_offset);
  out.append(kMagic);
  Append(out, kVersion);
  Append(out, state.elsewhere ? kStateElsewhere : uint16_t{0});
  Append(out, static_cast<uint32_t>(encoded.size()));
  Append(out, name.key);
  Append(out, name.state);
  Append(out, static_cast<uint64_t>(state.bytes));
  Append(out, state.checksum);
  Append(out, Checksum(encoded));
  Append(out, Checksum(out));
  out.append(encoded);
  out.resize(state_offset);
  return out;
}

absl::StatusOr<SnapshotHead> DecodeSnapshotHead(std::string_view bytes) {
  FERMATA_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes));
  const std::string_view record = bytes.substr(kHeaderBytes, header.record_bytes);
  if (Checksum(record) != header.record_checksum) {
    return DamagedSnapshot(kHeaderBytes, "the record does not match its checksum");
  }
  SnapshotHead head{.name = header.name,
                    .record = {},
                    .state = header.state,
                    .size = StateOffset(header.record_bytes)};
  for (size_t i = kHeaderBytes + header.record_bytes; i < head.size; ++i) {
    if (bytes[i] != 0) return DamagedSnapshot(i, "the padding is not zero");
  }
  FERMATA_ASSIGN_OR_RETURN(head.record, DecodeRecord(record));
  if (head.name.key == 0 && !head.record.checkpoints.empty()) {
    return DamagedSnapshot(kHeaderBytes, "an export with checkpoints");
  }
  return head;
}

std::string EncodeExport(const SessionRecord& record, std::span<const std::byte> state) {
  SessionRecord exported = record;
  exported.checkpoints.clear();
  std::string out = EncodeSnapshotHead(
      {}, exported, {.bytes = state.size(), .checksum = StateChecksum(state), .elsewhere = false});
  out.append(reinterpret_cast<const char*>(state.data()), state.size());
  return out;
}

absl::StatusOr<DecodedSnapshot> DecodeSnapshot(std::string_view bytes) {
  FERMATA_ASSIGN_OR_RETURN(SnapshotHead head, DecodeSnapshotHead(bytes));
  if (head.state.elsewhere) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     "the snapshot's state lies in another file of its directory",
                     {.reason = "SNAPSHOT_STATE_ELSEWHERE", .metadata = {}, .retry_after = {}});
  }
  const size_t there = bytes.size() - head.size;
  if (there < head.state.bytes) return DamagedSnapshot(bytes.size(), "the state is cut off");
  if (there > head.state.bytes) {
    return DamagedSnapshot(head.size + head.state.bytes, "bytes after the state");
  }
  const std::span<const std::byte> state(
      reinterpret_cast<const std::byte*>(bytes.data()) + head.size, head.state.bytes);
  if (StateChecksum(state) != head.state.checksum) return DamagedState(head.size);
  return DecodedSnapshot{.name = head.name, .record = std::move(head.record), .state = state};
}

absl::Status DamagedSnapshot(size_t offset, std::string_view why) {
  return MakeError(absl::StatusCode::kDataLoss,
                   absl::StrCat("snapshot damaged at byte ", offset, ": ",
                                absl::string_view(why.data(), why.size())),
                   {.reason = "SNAPSHOT_DAMAGED",
                    .metadata = {{"offset", std::to_string(offset)}},
                    .retry_after = {}});
}

absl::Status DamagedState(size_t offset) {
  return DamagedSnapshot(offset, "the state does not match its checksum");
}

}  // namespace fermata
