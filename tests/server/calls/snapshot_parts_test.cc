#include "server/calls/snapshot_parts.h"

#include <cstring>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/session/snapshot.h"
#include "gmock/gmock.h"

namespace fermata {
namespace {

constexpr size_t kStateBytes = 5000;

SessionRecord Record(const std::string& fingerprint) {
  SessionRecord record;
  record.id = "s";
  record.model_fingerprint = fingerprint;
  record.position = 7;
  record.pending_token = 3;
  return record;
}

std::vector<std::byte> State() {
  std::vector<std::byte> state(kStateBytes);
  for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<std::byte>(i * 31 % 251);
  return state;
}

std::string Snapshot() { return EncodeExport(Record("ours"), State()); }

std::vector<v1::SnapshotPart> Cut(const std::string& head, const std::vector<std::byte>& state,
                                  size_t part_bytes) {
  SnapshotParts parts(head, state, part_bytes);
  std::vector<v1::SnapshotPart> all;
  while (!parts.done()) parts.Next(&all.emplace_back());
  return all;
}

SnapshotAssembly Assembly() { return SnapshotAssembly({"ours", kStateBytes}); }

absl::StatusOr<std::string> Join(const std::vector<v1::SnapshotPart>& parts) {
  SnapshotAssembly assembly = Assembly();
  for (const v1::SnapshotPart& part : parts) {
    if (absl::Status status = assembly.Add(part); !status.ok()) return status;
  }
  return assembly.Take();
}

std::vector<v1::SnapshotPart> GoodParts(size_t part_bytes = 1000) {
  const std::string head = Snapshot().substr(0, Snapshot().size() - kStateBytes);
  return Cut(head, State(), part_bytes);
}

TEST(SnapshotPartsTest, PartsJoinToTheSnapshotWhateverTheirSize) {
  for (const size_t part_bytes : {1u, 63u, 64u, 1000u, 4999u, 5000u, 100000u}) {
    const auto parts = GoodParts(part_bytes);
    EXPECT_EQ(parts.size(), (Snapshot().size() + part_bytes - 1) / part_bytes);
    EXPECT_EQ(parts.front().total_bytes(), static_cast<int64_t>(Snapshot().size()));
    const auto whole = Join(parts);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(*whole, Snapshot());
  }
}

TEST(SnapshotPartsTest, MessagesStayWithinTheirLimit) {
  EXPECT_EQ(PartBytes(4 << 20), 1u << 20);
  const size_t part_bytes = PartBytes(1024);
  v1::SnapshotPart part;
  part.set_total_bytes(int64_t{1} << 40);
  part.set_data(std::string(part_bytes, 'x'));
  part.set_checksum(1);
  v1::ImportSessionRequest request;
  *request.mutable_part() = part;
  EXPECT_LE(request.ByteSizeLong(), 1024u);
}

TEST(SnapshotAssemblyTest, EveryBitCounts) {
  for (int bit = 0; bit < 8; ++bit) {
    auto parts = GoodParts();
    (*parts[2].mutable_data())[bit * 100] ^= static_cast<char>(1 << bit);
    EXPECT_EQ(DetailsOf(Join(parts).status()).reason, "SNAPSHOT_DAMAGED");
  }
  auto parts = GoodParts();
  parts.back().set_checksum(parts.back().checksum() + 1);
  EXPECT_EQ(DetailsOf(Join(parts).status()).reason, "SNAPSHOT_DAMAGED");
}

TEST(SnapshotAssemblyTest, PartsThatMakeNoSenseAreRefused) {
  const auto refused = [](const std::vector<v1::SnapshotPart>& parts) {
    const absl::Status status = Join(parts).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return DetailsOf(status).metadata["field"];
  };
  EXPECT_EQ(refused({}), "part.data");
  auto parts = GoodParts();
  parts.pop_back();
  EXPECT_EQ(refused(parts), "part.data");
  parts = GoodParts();
  parts.push_back(parts.back());
  EXPECT_EQ(refused(parts), "part.data");
  parts = GoodParts();
  parts[0].set_total_bytes(0);
  EXPECT_EQ(refused(parts), "part.total_bytes");
  parts[0].set_total_bytes(-1);
  EXPECT_EQ(refused(parts), "part.total_bytes");
  parts = GoodParts();
  parts[1].set_total_bytes(1);
  EXPECT_EQ(refused(parts), "part.total_bytes");
}

TEST(SnapshotAssemblyTest, ATotalThatNoSnapshotHasIsRefusedWithTheFirstPart) {
  const auto refused = [](const std::string& head, int64_t total) {
    v1::SnapshotPart part;
    part.set_total_bytes(total);
    part.set_data(head);
    SnapshotAssembly assembly = Assembly();
    return assembly.Add(part);
  };
  constexpr int64_t kLarge = int64_t{1} << 40;
  for (const int64_t total : {kLarge, int64_t{kStateBytes + kMaxSnapshotHeadBytes + 1}}) {
    EXPECT_EQ(DetailsOf(refused("no snapshot at all", total)).reason, "SNAPSHOT_DAMAGED");
    EXPECT_EQ(DetailsOf(refused(Snapshot(), total)).reason, "SNAPSHOT_DAMAGED");
    const absl::Status other = refused(EncodeExport(Record("theirs"), State()), total);
    EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
    const ErrorDetails details = DetailsOf(other);
    EXPECT_EQ(details.reason, "SNAPSHOT_MODEL");
    EXPECT_EQ(details.metadata.at("model_fingerprint"), "theirs");
    EXPECT_EQ(details.metadata.at("expected_model_fingerprint"), "ours");
  }
  EXPECT_EQ(DetailsOf(refused("x", 1)).reason, "SNAPSHOT_DAMAGED");
}

TEST(SnapshotPartsTest, TheChecksumOfTheWholeIsThatOfTheLastPart) {
  const std::string head = Snapshot().substr(0, Snapshot().size() - kStateBytes);
  const SnapshotParts parts(head, State(), 1000);
  EXPECT_EQ(parts.total(), Snapshot().size());
  EXPECT_EQ(parts.Checksum(), GoodParts().back().checksum());
}

TEST(SnapshotAssemblyTest, MereBytesJoinWhateverTheirPieces) {
  for (const size_t piece : {1u, 100u, 100000u}) {
    SnapshotAssembly assembly = Assembly();
    const std::string whole = Snapshot();
    for (size_t at = 0; at < whole.size(); at += piece) {
      ASSERT_TRUE(assembly.Add(std::string_view(whole).substr(at, piece)).ok());
    }
    EXPECT_EQ(*assembly.Take(), whole);
  }
}

TEST(SnapshotAssemblyTest, MereBytesAreTakenAsFarAsASnapshotGoes) {
  const auto refused = [](std::string bytes) {
    SnapshotAssembly assembly = Assembly();
    const size_t longest = kStateBytes + kMaxSnapshotHeadBytes;
    bytes.resize(longest);
    EXPECT_TRUE(assembly.Add(std::string_view(bytes)).ok());
    return DetailsOf(assembly.Add(std::string_view("x"))).reason;
  };
  EXPECT_EQ(refused("no snapshot at all"), "SNAPSHOT_DAMAGED");
  EXPECT_EQ(refused(Snapshot()), "SNAPSHOT_DAMAGED");
  EXPECT_EQ(refused(EncodeExport(Record("theirs"), State())), "SNAPSHOT_MODEL");
}

}  // namespace
}  // namespace fermata
