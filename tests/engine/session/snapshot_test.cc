#include "engine/session/snapshot.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/session/testing.h"
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
  Write(bytes, 32, XXH3_64bits(bytes.data() + 64, record_bytes), 8);
  Write(bytes, 56, XXH3_64bits(bytes.data(), 56), 8);
}

TEST(SnapshotTest, BytesAreThoseOfTheFormatsTable) {
  SessionRecord record;
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
  const std::vector<std::byte> state = SomeState(5, 1);

  // Record: 48 fixed, 4+3 id, 4+2 fingerprint, 4+4 memory, (4+1)+(4+2) and (4+1)+4 labels = 89.
  std::string want(192 + 5, '\0');  // 64 + 89 = 153, rounded up to 192.
  std::memcpy(want.data(), "FERMATA", 7);
  Write(want, 8, 1, 4);
  Write(want, 12, 89, 4);
  Write(want, 16, 192, 8);
  Write(want, 24, 5, 8);
  Write(want, 64 + 0, 0x0102030405, 8);
  Write(want, 64 + 8, 3, 8);
  Write(want, 64 + 16, 0x1122334455667788, 8);
  Write(want, 64 + 24, 0x1122334455667799, 8);
  Write(want, 64 + 32, 0x123456789, 8);
  Write(want, 64 + 40, 0x01020304, 4);
  Write(want, 64 + 44, 2, 4);
  const std::string strings(
      "\3\0\0\0s-1\2\0\0\0ab\4\0\0\0\x09\0\0\0\1\0\0\0a\2\0\0\0xy\1\0\0\0b\0\0\0\0", 41);
  std::memcpy(want.data() + 64 + 48, strings.data(), strings.size());
  std::memcpy(want.data() + 192, state.data(), 5);
  Write(want, 40, XXH3_64bits(state.data(), 5), 8);
  Reseal(want);

  EXPECT_EQ(EncodeSnapshot(record, state), want);
}

TEST(SnapshotTest, AbsentTtlAndTokenAreMinusOne) {
  SessionRecord record;
  record.id = "x";
  const std::string bytes = EncodeSnapshot(record, {});
  EXPECT_EQ(Read(bytes, 64 + 32, 8), ~uint64_t{0});
  EXPECT_EQ(Read(bytes, 64 + 40, 4), 0xffffffffu);
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
  for (int i = 0; i < kMaxLabels; ++i) {
    std::string key = std::to_string(i) + std::string(kMaxLabelKeyBytes, 'k');
    key.resize(kMaxLabelKeyBytes);
    largest.labels[key] = std::string(kMaxLabelValueBytes, 'v');
  }
  for (const SessionRecord& record : {bare, FullRecord("full"), largest}) {
    for (const size_t size : {0, 1, 63, 64, 1000}) {
      const std::vector<std::byte> state = SomeState(size, 3);
      const std::string bytes = EncodeSnapshot(record, state);
      const auto decoded = DecodeSnapshot(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->record, record);
      EXPECT_EQ(std::vector<std::byte>(decoded->state.begin(), decoded->state.end()), state);
      EXPECT_EQ((bytes.size() - size) % 64, 0u);
    }
  }
  EXPECT_EQ(EncodeSnapshot(largest, {}).size(), kMaxSnapshotHeadBytes);
}

TEST(SnapshotTest, EveryTruncationIsFound) {
  const std::string bytes = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Reason(DecodeSnapshot(bytes.substr(0, size)).status()), "DATA_LOSS SNAPSHOT_DAMAGED")
        << size;
  }
  EXPECT_EQ(Reason(DecodeSnapshot(bytes + '\0').status()), "DATA_LOSS SNAPSHOT_DAMAGED");
}

TEST(SnapshotTest, EveryFlippedBitIsFound) {
  std::string bytes = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_EQ(Reason(DecodeSnapshot(bytes).status()), "DATA_LOSS SNAPSHOT_DAMAGED") << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_TRUE(DecodeSnapshot(bytes).ok());
}

TEST(SnapshotTest, StateOfAnotherSnapshotIsFound) {
  const std::string one = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
  const std::string other = EncodeSnapshot(FullRecord("s"), SomeState(100, 2));
  const auto mixed =
      DecodeSnapshot(one.substr(0, one.size() - 100) + other.substr(one.size() - 100));
  EXPECT_EQ(Reason(mixed.status()), "DATA_LOSS SNAPSHOT_DAMAGED");
  EXPECT_EQ(DetailsOf(mixed.status()).metadata["offset"], std::to_string(one.size() - 100));
}

TEST(SnapshotTest, AnotherVersionIsNotDamage) {
  std::string bytes = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
  Write(bytes, 8, 2, 4);
  Reseal(bytes);
  const absl::Status status = DecodeSnapshot(bytes).status();
  EXPECT_EQ(Reason(status), "FAILED_PRECONDITION SNAPSHOT_VERSION");
  EXPECT_EQ(DetailsOf(status).metadata["version"], "2");
}

struct Forgery {
  const char* what;
  std::function<void(std::string& bytes)> forge;
};

TEST(SnapshotTest, ImpossibleFieldsUnderRightChecksumsAreFound) {
  const auto set = [](size_t offset, uint64_t value, size_t count) {
    return [=](std::string& bytes) { Write(bytes, offset, value, count); };
  };
  const uint64_t most = ~uint64_t{0};
  const Forgery forgeries[] = {
      {"record_bytes huge", set(12, most, 4)},
      {"record_bytes beyond the bound", set(12, kMaxRecordBytes + 1, 4)},
      {"record_bytes short", set(12, 60, 4)},
      {"state_offset huge", set(16, most, 8)},
      {"state_offset zero", set(16, 0, 8)},
      {"state_bytes huge", set(24, most, 8)},
      {"state_bytes such that the sum wraps", set(24, most - 255, 8)},
      {"state_bytes one more", set(24, 101, 8)},
      {"state_bytes one less", set(24, 99, 8)},
      {"reserved not zero", set(48, 1, 8)},
      {"position negative", set(64, most, 8)},
      {"ttl zero", set(64 + 32, 0, 8)},
      {"ttl negative", set(64 + 32, most - 1, 8)},
      {"pending token missing", set(64 + 40, most, 4)},
      {"pending token negative", set(64 + 40, most - 1, 4)},
      {"label_count huge", set(64 + 44, most, 4)},
      {"label_count one less", set(64 + 44, 3, 4)},
      {"label_count one more", set(64 + 44, 5, 4)},
      {"id empty", set(64 + 48, 0, 4)},
      {"id length huge", set(64 + 48, most, 4)},
      {"id length past the record", set(64 + 48, 128, 4)},
      {"labels out of order", [](std::string& bytes) { bytes[bytes.find("topic")] = 'a'; }},
      {"labels doubled", [](std::string& bytes) { bytes.replace(bytes.find("uses"), 4, "user"); }},
      {"label key empty", [](std::string& bytes) { bytes[bytes.find("user") - 4] = 0; }},
  };
  const std::string good = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
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
  const std::string good = EncodeSnapshot(FullRecord("s"), SomeState(100, 1));
  int accepted = 0;
  for (size_t i = 0; i < good.size() - 100; ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      Reseal(bytes);
      const auto decoded = DecodeSnapshot(bytes);
      if (!decoded.ok()) continue;
      ++accepted;
      EXPECT_EQ(EncodeSnapshot(decoded->record, decoded->state), bytes) << i << " " << value;
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
