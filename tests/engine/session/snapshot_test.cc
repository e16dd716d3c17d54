#include "engine/session/snapshot.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "tests/engine/session/records.h"
#include "xxhash.h"

namespace fermata {
namespace {

// Writes `value` as `count` little-endian bytes at `offset`, as a reader of FORMAT.md would.
void Write(std::string& bytes, size_t offset, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes.at(offset + i) = static_cast<char>(value >> (8 * i));
}

uint64_t Read(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes.at(offset + i))) << (8 * i);
  }
  return value;
}

// Makes the checksums of an altered snapshot right again, so that only what they protect is wrong.
void Reseal(std::string& bytes) {
  const size_t record_bytes = std::min<size_t>(Read(bytes, 12, 4), bytes.size() - 64);
  Write(bytes, 48, XXH3_64bits(bytes.data() + 64, record_bytes), 8);
  Write(bytes, 56, XXH3_64bits(bytes.data(), 56), 8);
}

constexpr SnapshotName kName{.key = 0x1234, .state = 0x1200};

StateInfo Info(const std::vector<std::byte>& state, bool elsewhere = false) {
  return {.bytes = state.size(), .checksum = StateChecksum(state), .elsewhere = elsewhere};
}

// A snapshot of a directory, which has all that the format knows.
std::string Encode(const SessionRecord& record, const std::vector<std::byte>& state) {
  return EncodeSnapshotHead({.key = 2'000'000'000, .state = 7}, record, Info(state)) +
         AsText(state);
}

// The snapshot below, written down byte by byte from the tables of FORMAT.md.
struct Written {
  SessionRecord record;
  std::vector<std::byte> state;
  std::string head;
};

Written WriteByHand(bool elsewhere) {
  Written written;
  SessionRecord& record = written.record;
  record.id = "s-1";
  record.model_fingerprint = "ab";
  record.position = 0x0102030405;
  record.pending_token = 0x01020304;
  record.sampler_memory = std::string("\x09\x00\x00\x00", 4);
  record.labels = {{"b", ""}, {"a", "xy"}};
  record.create_time = absl::FromUnixNanos(0x1122334455667788);
  record.update_time = absl::FromUnixNanos(0x1122334455667799);
  record.ttl = absl::Nanoseconds(0x123456789);
  record.turns = 3;
  record.revision = 0x55;
  record.durability = Durability::kDisk;
  record.max_checkpoints = 9;
  record.pinned = true;
  record.parent_id = "p";
  record.parent_position = 0x0a0b;
  record.checkpoints = {{.snapshot = {.key = 0x1001, .state = 0x1000},
                         .position = 0x21,
                         .turns = 2,
                         .time = absl::FromUnixNanos(0x1122334455660000)}};
  written.state = SomeState(5, 1);

  // Record: 72 fixed, 4+3 id, 4+2 fingerprint, 4+1 parent, 4+4 memory, (4+1)+(4+2) and (4+1)+4
  // labels, 40 checkpoint = 158.
  std::string& want = written.head;
  want.assign(256, '\0');  // 64 + 158 = 222, rounded up to 256.
  std::memcpy(want.data(), "FERMATA", 7);
  Write(want, 8, 1, 2);
  Write(want, 10, elsewhere ? 1 : 0, 2);
  Write(want, 12, 158, 4);
  Write(want, 16, 0x1234, 8);
  Write(want, 24, 0x1200, 8);
  Write(want, 32, 5, 8);
  Write(want, 40, XXH3_64bits(written.state.data(), 5), 8);
  Write(want, 64 + 0, 0x0102030405, 8);
  Write(want, 64 + 8, 3, 8);
  Write(want, 64 + 16, 0x55, 8);
  Write(want, 64 + 24, 0x1122334455667788, 8);
  Write(want, 64 + 32, 0x1122334455667799, 8);
  Write(want, 64 + 40, 0x123456789, 8);
  Write(want, 64 + 48, 0x0a0b, 8);
  Write(want, 64 + 56, 0x01020304, 4);
  Write(want, 64 + 60, 9, 4);
  Write(want, 64 + 64, 2, 1);
  Write(want, 64 + 65, 1, 1);
  Write(want, 64 + 66, 2, 2);
  Write(want, 64 + 68, 1, 2);
  const std::string strings(
      "\3\0\0\0s-1\2\0\0\0ab\1\0\0\0p\4\0\0\0\x09\0\0\0"
      "\1\0\0\0a\2\0\0\0xy\1\0\0\0b\0\0\0\0",
      46);
  std::memcpy(want.data() + 64 + 72, strings.data(), strings.size());
  Write(want, 64 + 118, 0x1001, 8);
  Write(want, 64 + 126, 0x1000, 8);
  Write(want, 64 + 134, 0x21, 8);
  Write(want, 64 + 142, 2, 8);
  Write(want, 64 + 150, 0x1122334455660000, 8);
  Reseal(want);
  return written;
}

TEST(SnapshotTest, BytesAreThoseOfTheFormatsTable) {
  for (const bool elsewhere : {false, true}) {
    const Written written = WriteByHand(elsewhere);
    const StateInfo info = Info(written.state, elsewhere);
    EXPECT_EQ(EncodeSnapshotHead(kName, written.record, info), written.head);
    const auto head = DecodeSnapshotHead(written.head);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->name, kName);
    EXPECT_EQ(head->record, written.record);
    EXPECT_EQ(head->state, info);
    EXPECT_EQ(head->size, 256u);
    const auto whole = DecodeSnapshot(written.head + AsText(written.state));
    if (elsewhere) {
      EXPECT_EQ(Reason(whole.status()), "FAILED_PRECONDITION SNAPSHOT_STATE_ELSEWHERE");
    } else {
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_EQ(whole->record, written.record);
    }
  }
}

// With checksums that `xxhsum -H3` printed for the bytes, so that the library at hand has no say.
TEST(SnapshotTest, AnExportOfTheLeastRecordIsTheseBytes) {
  std::string want(192, '\0');  // 64 + 72 + 4+1 id + 3 * 4 = 153, rounded up to 192.
  std::memcpy(want.data(), "FERMATA", 7);
  Write(want, 8, 1, 2);
  Write(want, 12, 89, 4);
  Write(want, 32, 3, 8);
  Write(want, 40, 0x78AF5F94892F3950, 8);
  Write(want, 48, 0x314844FCCB20BF26, 8);
  Write(want, 56, 0x26FAE2604AF1BD42, 8);
  Write(want, 64 + 24, 0, 8);
  Write(want, 64 + 40, ~uint64_t{0}, 8);
  Write(want, 64 + 56, ~uint64_t{0}, 4);
  Write(want, 64 + 60, ~uint64_t{0}, 4);
  Write(want, 64 + 72, 1, 4);
  want[64 + 76] = 'x';
  want += "abc";
  SessionRecord record;
  record.id = "x";
  const std::vector<std::byte> state = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(EncodeExport(record, state), want);
  const auto decoded = DecodeSnapshot(want);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->record, record);
  EXPECT_EQ(decoded->name, SnapshotName{});
}

TEST(SnapshotTest, AnExportHasNoNameAndNoCheckpoints) {
  SessionRecord record = FullRecord("s");
  const auto decoded = DecodeSnapshot(EncodeExport(record, SomeState(10, 1)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  record.checkpoints.clear();
  EXPECT_EQ(decoded->record, record);
  EXPECT_EQ(decoded->name, SnapshotName{});
}

TEST(SnapshotTest, ChecksumIsXxh3) {
  EXPECT_EQ(StateChecksum({}), 0x2D06800538D394C2u);  // Of no bytes, as xxHash publishes it.
}

TEST(SnapshotTest, RoundTrips) {
  SessionRecord bare;
  bare.id = "x";
  SessionRecord largest = FullRecord(std::string(kMaxSessionIdBytes, 'i'));
  largest.model_fingerprint = std::string(kMaxFingerprintBytes, 'f');
  largest.sampler_memory = std::string(kMaxSamplerMemoryBytes, '\xff');
  largest.labels.clear();
  largest.parent_id = std::string(kMaxSessionIdBytes, 'p');
  largest.checkpoints.clear();
  for (int i = 1; i <= kMaxCheckpoints; ++i) {
    largest.checkpoints.push_back(
        {.snapshot = {.key = static_cast<SnapshotKey>(i), .state = 1}, .position = i, .time = {}});
  }
  for (int i = 0; i < kMaxLabels; ++i) {
    std::string key = std::to_string(i) + std::string(kMaxLabelKeyBytes, 'k');
    key.resize(kMaxLabelKeyBytes);
    largest.labels[key] = std::string(kMaxLabelValueBytes, 'v');
  }
  for (const SessionRecord& record : {bare, FullRecord("full"), largest}) {
    for (const size_t size : {0, 1, 63, 64, 1000}) {
      const std::vector<std::byte> state = SomeState(size, 3);
      const std::string bytes = Encode(record, state);
      const auto decoded = DecodeSnapshot(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->name.key, 2'000'000'000u);
      EXPECT_EQ(decoded->record, record);
      EXPECT_EQ(std::vector<std::byte>(decoded->state.begin(), decoded->state.end()), state);
      EXPECT_EQ((bytes.size() - size) % 64, 0u);
    }
  }
  EXPECT_EQ(Encode(largest, {}).size(), kMaxSnapshotHeadBytes);
}

TEST(SnapshotTest, EveryTruncationIsFound) {
  const std::string bytes = Encode(FullRecord("s"), SomeState(100, 1));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Reason(DecodeSnapshot(bytes.substr(0, size)).status()), "DATA_LOSS SNAPSHOT_DAMAGED")
        << size;
  }
  EXPECT_EQ(Reason(DecodeSnapshot(bytes + '\0').status()), "DATA_LOSS SNAPSHOT_DAMAGED");
}

TEST(SnapshotTest, EveryFlippedBitIsFound) {
  std::string bytes = Encode(FullRecord("s"), SomeState(100, 1));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_EQ(Reason(DecodeSnapshot(bytes).status()), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_TRUE(DecodeSnapshot(bytes).ok());
}

TEST(SnapshotTest, StateOfAnotherSnapshotIsFound) {
  const std::string one = Encode(FullRecord("s"), SomeState(100, 1));
  const std::string other = Encode(FullRecord("s"), SomeState(100, 2));
  const auto mixed =
      DecodeSnapshot(one.substr(0, one.size() - 100) + other.substr(one.size() - 100));
  EXPECT_EQ(Reason(mixed.status()), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(mixed.status()).metadata["offset"], std::to_string(one.size() - 100));
}

TEST(SnapshotTest, AnotherVersionIsNotDamage) {
  std::string bytes = Encode(FullRecord("s"), SomeState(100, 1));
  Write(bytes, 8, 2, 2);
  Reseal(bytes);
  const absl::Status status = DecodeSnapshot(bytes).status();
  EXPECT_EQ(Reason(status), "FAILED_PRECONDITION SNAPSHOT_VERSION");
  EXPECT_EQ(DetailsOf(status).metadata["version"], "2");
}

struct Forgery {
  const char* what;
  std::function<void(std::string& bytes)> forge;
};

// FullRecord's: key 5, state 4.
constexpr std::string_view kFirstCheckpoint("\5\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 16);

TEST(SnapshotTest, ImpossibleFieldsUnderRightChecksumsAreFound) {
  const auto set = [](size_t offset, uint64_t value, size_t count) {
    return [=](std::string& bytes) { Write(bytes, offset, value, count); };
  };
  const uint64_t most = ~uint64_t{0};
  const Forgery forgeries[] = {
      {"no such flag", set(10, 2, 2)},
      {"record_bytes huge", set(12, most, 4)},
      {"record_bytes beyond the bound", set(12, kMaxRecordBytes + 1, 4)},
      {"record_bytes short", set(12, 60, 4)},
      {"key of an export, but a state's key", set(16, 0, 8)},
      {"state_key none", set(24, 0, 8)},
      {"state_key above the key", set(24, 2'000'000'001, 8)},
      {"export with checkpoints",
       [](std::string& bytes) {
         Write(bytes, 16, 0, 8);
         Write(bytes, 24, 0, 8);
       }},
      {"state_bytes huge", set(32, most, 8)},
      {"state_bytes such that the sum wraps", set(32, most - 255, 8)},
      {"state_bytes one more", set(32, 101, 8)},
      {"state_bytes one less", set(32, 99, 8)},
      {"position negative", set(64, most, 8)},
      {"ttl zero", set(64 + 40, 0, 8)},
      {"ttl negative", set(64 + 40, most - 1, 8)},
      {"parent position negative", set(64 + 48, most, 8)},
      {"pending token missing", set(64 + 56, most, 4)},
      {"pending token negative", set(64 + 56, most - 1, 4)},
      {"max_checkpoints beyond the bound", set(64 + 60, kMaxCheckpoints + 1, 4)},
      {"no such durability", set(64 + 64, 3, 1)},
      {"pinned twice", set(64 + 65, 2, 1)},
      {"checkpoint_count huge", set(64 + 68, most, 2)},
      {"checkpoint_count one less", set(64 + 68, 1, 2)},
      {"reserved not zero", set(64 + 70, 1, 2)},
      {"checkpoints out of order",
       [](std::string& bytes) { Write(bytes, bytes.find(kFirstCheckpoint), 3'000'000'000, 8); }},
      {"checkpoint without a state",
       [](std::string& bytes) { Write(bytes, bytes.find(kFirstCheckpoint) + 8, 0, 8); }},
      {"label_count huge", set(64 + 66, most, 2)},
      {"label_count one less", set(64 + 66, 3, 2)},
      {"label_count one more", set(64 + 66, 5, 2)},
      {"id empty", set(64 + 72, 0, 4)},
      {"id length huge", set(64 + 72, most, 4)},
      {"id length past the record", set(64 + 72, 128, 4)},
      {"labels out of order", [](std::string& bytes) { bytes[bytes.find("topic")] = 'a'; }},
      {"labels doubled", [](std::string& bytes) { bytes.replace(bytes.find("uses"), 4, "user"); }},
      {"label key empty", [](std::string& bytes) { bytes[bytes.find("user") - 4] = 0; }},
  };
  const std::string good = Encode(FullRecord("s"), SomeState(100, 1));
  for (const Forgery& forgery : forgeries) {
    std::string bytes = good;
    forgery.forge(bytes);
    ASSERT_NE(bytes, good) << forgery.what;
    Reseal(bytes);
    EXPECT_EQ(Reason(DecodeSnapshot(bytes).status()), "DATA_LOSS SNAPSHOT_DAMAGED") << forgery.what;
  }
}

// A snapshot can be written in one way only: whatever is accepted is what the encoder would write.
TEST(SnapshotTest, WhatIsAcceptedIsCanonical) {
  const std::string good = Encode(FullRecord("s"), SomeState(100, 1));
  int accepted = 0;
  for (size_t i = 0; i < good.size() - 100; ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      Reseal(bytes);
      const auto decoded = DecodeSnapshot(bytes);
      if (!decoded.ok()) continue;
      ++accepted;
      const std::vector<std::byte> state(decoded->state.begin(), decoded->state.end());
      EXPECT_EQ(EncodeSnapshotHead(decoded->name, decoded->record, Info(state)) + AsText(state),
                bytes)
          << i << " " << value;
    }
  }
  EXPECT_GT(accepted, 256 * 32);  // The times and counters alone take any byte nearly anywhere.
}

TEST(SnapshotTest, CheckRecordNamesTheField) {
  const std::pair<const char*, std::function<void(SessionRecord&)>> cases[] = {
      {"id", [](SessionRecord& r) { r.id.clear(); }},
      {"id", [](SessionRecord& r) { r.id.resize(kMaxSessionIdBytes + 1); }},
      {"model_fingerprint",
       [](SessionRecord& r) { r.model_fingerprint.resize(kMaxFingerprintBytes + 1); }},
      {"sampler_memory",
       [](SessionRecord& r) { r.sampler_memory.resize(kMaxSamplerMemoryBytes + 1); }},
      {"position", [](SessionRecord& r) { r.position = -1; }},
      {"pending_token", [](SessionRecord& r) { r.pending_token.reset(); }},
      {"pending_token", [](SessionRecord& r) { r.pending_token = -5; }},
      {"ttl", [](SessionRecord& r) { r.ttl = absl::ZeroDuration(); }},
      {"labels", [](SessionRecord& r) { r.labels[""] = "x"; }},
      {"max_checkpoints", [](SessionRecord& r) { r.max_checkpoints = -1; }},
      {"max_checkpoints", [](SessionRecord& r) { r.max_checkpoints = kMaxCheckpoints + 1; }},
      {"parent_id", [](SessionRecord& r) { r.parent_id.resize(kMaxSessionIdBytes + 1); }},
      {"parent_position", [](SessionRecord& r) { r.parent_position = -1; }},
      {"parent_position", [](SessionRecord& r) { r.parent_id.clear(); }},
      {"checkpoints", [](SessionRecord& r) { r.checkpoints.resize(kMaxCheckpoints + 1); }},
      {"checkpoints", [](SessionRecord& r) { std::swap(r.checkpoints[0], r.checkpoints[1]); }},
      {"checkpoints", [](SessionRecord& r) { r.checkpoints[0].snapshot.state = 6; }},
      {"checkpoints", [](SessionRecord& r) { r.checkpoints[0].position = -1; }},
      {"labels", [](SessionRecord& r) { r.labels["k"].resize(kMaxLabelValueBytes + 1); }},
  };
  EXPECT_TRUE(CheckRecord(FullRecord("s")).ok());
  for (const auto& [field, change] : cases) {
    SessionRecord record = FullRecord("s");
    change(record);
    EXPECT_EQ(DetailsOf(CheckRecord(record)).metadata["field"], field);
  }
}

}  // namespace
}  // namespace fermata
