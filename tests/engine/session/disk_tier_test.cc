#include "engine/session/disk_tier.h"

#include <cstring>
#include <filesystem>
#include <thread>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "tests/engine/session/disk_testing.h"
#include "tests/engine/session/fault_file_system.h"

namespace fermata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DiskTierTest : public testing::Test {
 protected:
  DiskTier::Opened Open() { return MustOpen(DiskOptions(directory_)); }
  // A directory with these snapshots, closed again.
  void Fill(const std::vector<DiskSnapshot>& snapshots) {
    const DiskTier::Opened opened = Open();
    for (const absl::Status& status : PutAll(*opened.tier, snapshots)) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  void RemoveIndex() {
    for (const char* name : {"index.db", "index.db-wal"}) {
      std::filesystem::remove(directory_.File(name));
    }
  }
  static std::vector<SnapshotKey> KeysOf(const DiskTier::Opened& opened) {
    std::vector<SnapshotKey> keys;
    for (const auto& found : opened.snapshots) keys.push_back(found.name.key);
    return keys;
  }

  DiskDir directory_;
  const DiskSnapshot one_ = SomeSnapshot({.key = 1, .state = 1}, "a");
  const DiskSnapshot two_ = SomeSnapshot({.key = 2, .state = 1}, "b");
  const DiskSnapshot three_ = SomeSnapshot({.key = 0x1003, .state = 0x1003}, "c");
};

TEST_F(DiskTierTest, NamesAndBytesAreThoseOfTheFormat) {
  Fill({one_, two_, three_});
  EXPECT_THAT(directory_.Names(), ElementsAre("0/0000000000000001.snap", "0/0000000000000002.snap",
                                              "1/0000000000001003.snap"));
  const StateInfo embedded{.bytes = kDiskStateBytes, .checksum = StateChecksum(one_.state)};
  const StateInfo elsewhere{
      .bytes = embedded.bytes, .checksum = embedded.checksum, .elsewhere = true};
  EXPECT_EQ(directory_.Read("0/0000000000000001.snap"),
            EncodeSnapshotHead(one_.name, one_.record, embedded) + AsText(one_.state));
  EXPECT_EQ(directory_.Read("0/0000000000000002.snap"),
            EncodeSnapshotHead(two_.name, two_.record, elsewhere));
}

TEST_F(DiskTierTest, AStartFindsAllWithAndWithoutTheIndex) {
  Fill({three_, one_, two_});
  for (const bool indexed : {true, false, true}) {
    if (!indexed) RemoveIndex();
    const DiskTier::Opened opened = Open();
    EXPECT_THAT(KeysOf(opened), ElementsAre(1, 2, 0x1003));
    EXPECT_EQ(opened.last_key, 0x1003u);
    EXPECT_EQ(opened.snapshots[1].name, two_.name);
    EXPECT_EQ(opened.snapshots[1].record, two_.record);
    EXPECT_TRUE(opened.remarks.empty());
    for (const DiskSnapshot& snapshot : {one_, two_, three_}) ExpectKept(*opened.tier, snapshot);
  }
}

TEST_F(DiskTierTest, ADamagedIndexIsMadeAnew) {
  Fill({one_, two_, three_});
  const std::string good = directory_.Read("index.db");
  ASSERT_GT(good.size(), 4096u);
  std::vector<std::string> broken = {"", "not a database", good.substr(0, good.size() / 2),
                                     good.substr(0, 100)};
  for (size_t at = 0; at < good.size(); at += 97) {  // Pages of all kinds.
    broken.push_back(good);
    for (size_t i = at; i < std::min(at + 300, good.size()); ++i) broken.back()[i] ^= 0x55;
    at += 400;
  }
  for (const std::string& bytes : broken) {
    RemoveIndex();
    directory_.Write("index.db", bytes);
    const DiskTier::Opened opened = Open();
    EXPECT_THAT(KeysOf(opened), ElementsAre(1, 2, 0x1003));
    for (const DiskSnapshot& snapshot : {one_, two_, three_}) ExpectKept(*opened.tier, snapshot);
  }
  EXPECT_EQ(directory_.Names().size(), 3u);
}

// A row that outlived its file, as the index is not synced with the files, must not speak for another
// one that is given the same key.
TEST_F(DiskTierTest, ARowOfThePastIsNotBelieved) {
  Fill({one_});
  const std::string before_erase = directory_.Read("index.db");
  const SnapshotKey key = 1;
  EXPECT_TRUE(Open().tier->Erase({&key, 1}).ok());
  directory_.Write("index.db", before_erase);
  EXPECT_THAT(KeysOf(Open()), ElementsAre());
  const std::string before_put = directory_.Read("index.db");
  const DiskSnapshot other = SomeSnapshot({.key = 1, .state = 1}, "other");
  Fill({other});
  directory_.Write("index.db", before_put);
  const DiskTier::Opened opened = Open();
  ASSERT_THAT(KeysOf(opened), ElementsAre(1));
  EXPECT_EQ(opened.snapshots[0].record, other.record);
  ExpectKept(*opened.tier, other);
}

TEST_F(DiskTierTest, AStateOutlivesItsSnapshotForOthers) {
  Fill({one_, two_});
  {
    const DiskTier::Opened opened = Open();
    const SnapshotKey key = 1;
    EXPECT_TRUE(opened.tier->Erase({&key, 1}).ok());
    ExpectNone(*opened.tier, 1);
    ExpectKept(*opened.tier, two_);
  }
  EXPECT_THAT(directory_.Names(),
              ElementsAre("0/0000000000000001.state", "0/0000000000000002.snap"));
  for (const bool indexed : {true, false}) {
    if (!indexed) RemoveIndex();
    const DiskTier::Opened opened = Open();
    EXPECT_THAT(KeysOf(opened), ElementsAre(2));
    ExpectKept(*opened.tier, two_);
  }
  const SnapshotKey key = 2;
  const DiskTier::Opened opened = Open();
  EXPECT_TRUE(opened.tier->Erase({&key, 1}).ok());
  EXPECT_THAT(directory_.Names(), ElementsAre());
  EXPECT_EQ(opened.tier->usage().bytes, 0);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("0")));  // Empty ones go too.
}

TEST_F(DiskTierTest, AStateAloneKeepsItsKey) {
  // The snapshot with the state has the highest key of all, and goes.
  const DiskSnapshot low = SomeSnapshot({.key = 5, .state = 5}, "low");
  DiskSnapshot high = SomeSnapshot({.key = 6, .state = 5}, "high");
  Fill({high, low});
  const SnapshotKey key = 6;
  EXPECT_TRUE(Open().tier->Erase({&key, 1}).ok());
  const DiskTier::Opened opened = Open();
  EXPECT_THAT(KeysOf(opened), ElementsAre(5));
  EXPECT_EQ(opened.last_key, 6u);
  ExpectKept(*opened.tier, low);
}

TEST_F(DiskTierTest, OneServerOpensADirectory) {
  const DiskTier::Opened opened = Open();
  EXPECT_EQ(Reason(DiskTier::Open(DiskOptions(directory_)).status()),
            "FAILED_PRECONDITION DIRECTORY_LOCKED");
}

TEST_F(DiskTierTest, AMissingDirectoryIsMade) {
  DiskTier::Options options = DiskOptions(directory_);
  options.directory += "/new";
  MustOpen(options);
  EXPECT_TRUE(directory_.Has("new/LOCK"));
  options.directory = directory_.path() + "/missing/new";
  EXPECT_TRUE(absl::IsNotFound(DiskTier::Open(options).status()));
}

TEST_F(DiskTierTest, SomebodysDirectoryIsLeftAlone) {
  directory_.Write("thesis.txt", "years of work");
  EXPECT_EQ(Reason(DiskTier::Open(DiskOptions(directory_)).status()),
            "FAILED_PRECONDITION DIRECTORY_FOREIGN");
  EXPECT_EQ(directory_.Read("thesis.txt"), "years of work");
}

TEST_F(DiskTierTest, AnotherModelsDirectoryIsLeftAlone) {
  Fill({one_});
  directory_.Write("0/0000000000000009.1.tmp", "half");
  DiskTier::Options options = DiskOptions(directory_);
  options.model_fingerprint = "cafe";
  for (const bool indexed : {true, false}) {
    if (!indexed) RemoveIndex();
    const absl::Status status = DiskTier::Open(options).status();
    EXPECT_EQ(Reason(status), "FAILED_PRECONDITION SNAPSHOT_MODEL");
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("f00d"), HasSubstr("cafe")));
    EXPECT_TRUE(directory_.Has("0/0000000000000009.1.tmp"));
  }
}

TEST_F(DiskTierTest, WhatDoesNotBelongThereIsMovedAndTold) {
  Fill({one_});
  directory_.Write("0/0000000000000009.1.tmp", "half");
  directory_.Write("0/readme", "?");
  directory_.Write("ffff/0000000000000001.snap", "in the wrong place");
  directory_.Write("lost+found/readme", "another");
  const DiskTier::Opened opened = Open();
  EXPECT_THAT(KeysOf(opened), ElementsAre(1));
  EXPECT_EQ(opened.remarks.size(), 3u);
  EXPECT_EQ(directory_.Read("lost+found/0000000000000009.1.tmp"), "half");
  EXPECT_EQ(directory_.Read("lost+found/readme"), "another");
  EXPECT_EQ(directory_.Read("lost+found/readme.1"), "?");
  EXPECT_EQ(directory_.Read("lost+found/0000000000000001.snap"), "in the wrong place");
}

TEST_F(DiskTierTest, SnapshotsThatArePutTogetherShareTheSyncOfTheirDirectory) {
  FaultFileSystem files(directory_.path());
  const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
  std::vector<DiskSnapshot> many;
  for (SnapshotKey key = 1; key <= 50; ++key) {
    many.push_back(SomeSnapshot({.key = key, .state = key}, "s" + std::to_string(key)));
  }
  PutAll(*opened.tier, {SomeSnapshot({.key = 100, .state = 100}, "first")});
  const int64_t before = files.syncs();
  for (const absl::Status& status : PutAll(*opened.tier, many)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(files.syncs() - before, 50 + 1);  // Each file, and the directory.
  std::vector<SnapshotKey> keys;
  for (const DiskSnapshot& snapshot : many) keys.push_back(snapshot.name.key);
  EXPECT_TRUE(opened.tier->Erase(keys).ok());
  EXPECT_EQ(files.syncs() - before, 50 + 2);
}

TEST_F(DiskTierTest, TheQuotaIsKept) {
  DiskTier::Options options = DiskOptions(directory_);
  options.quota_bytes = 3 * 4096;
  const DiskTier::Opened opened = MustOpen(options);
  std::vector<DiskSnapshot> five;
  for (SnapshotKey key = 1; key <= 5; ++key) {
    five.push_back(SomeSnapshot({.key = key, .state = key}, "s"));
  }
  const std::vector<absl::Status> statuses = PutAll(*opened.tier, five);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Reason(statuses[i]), i < 3 ? "OK OK" : "RESOURCE_EXHAUSTED DISK_FULL") << i;
  }
  EXPECT_EQ(opened.tier->usage().bytes, 3 * 4096);
  EXPECT_EQ(opened.tier->usage().limit_bytes, 3 * 4096);
  EXPECT_EQ(directory_.Names().size(), 3u);
  const SnapshotKey key = 2;
  EXPECT_TRUE(opened.tier->Erase({&key, 1}).ok());
  EXPECT_TRUE(PutAll(*opened.tier, {five[4]})[0].ok());
}

TEST_F(DiskTierTest, TheFloorOfFreeSpaceIsKept) {
  FaultFileSystem files(directory_.path());
  DiskTier::Options options = DiskOptions(directory_, &files);
  options.free_space_floor = 1'000'000;
  const DiskTier::Opened opened = MustOpen(options);
  // Room for one of the two, which are written at the same time.
  files.set_free_bytes(1'000'000 + 4096);
  const std::vector<absl::Status> statuses = PutAll(*opened.tier, {one_, three_});
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_EQ(Reason(statuses[1]), "RESOURCE_EXHAUSTED DISK_FULL");
  files.set_free_bytes(1'000'000 + 4095);
  EXPECT_FALSE(PutAll(*opened.tier, {three_})[0].ok());
  files.set_free_bytes(1'000'000 + 4096);
  EXPECT_TRUE(PutAll(*opened.tier, {three_})[0].ok());
}

TEST_F(DiskTierTest, AFileWhoseSyncFailsIsWrittenAnew) {
  FaultFileSystem files(directory_.path());
  const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
  EXPECT_TRUE(PutAll(*opened.tier, {one_})[0].ok());
  // Create, append the head, append the state, sync.
  const DiskSnapshot four = SomeSnapshot({.key = 4, .state = 4}, "d");
  files.FailAt(4, FaultFileSystem::Fault::kFailed);
  EXPECT_TRUE(PutAll(*opened.tier, {four})[0].ok());
  EXPECT_TRUE(files.StopFailing());
  ExpectKept(*opened.tier, four);
  EXPECT_EQ(directory_.Names().size(), 2u);
}

TEST_F(DiskTierTest, EveryFlippedByteAndEveryTruncationIsToldAndHarmsNobodyElse) {
  Fill({one_, two_, three_});
  for (const char* name : {"0/0000000000000001.snap", "0/0000000000000002.snap"}) {
    const bool embeds = name == std::string("0/0000000000000001.snap");
    const DiskSnapshot& damaged = embeds ? one_ : two_;
    const std::string good = directory_.Read(name);
    const DiskTier::Opened opened = Open();
    std::vector<std::byte> state(kDiskStateBytes);
    const auto expect_refused = [&](const std::string& bytes, size_t at) {
      directory_.Write(name, bytes);
      const absl::Status status = opened.tier->State(damaged.name.key, state);
      EXPECT_EQ(Reason(status), "DATA_LOSS SNAPSHOT_DAMAGED") << at;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
      EXPECT_TRUE(DetailsOf(status).metadata.contains("offset"));
      ExpectKept(*opened.tier, three_);
    };
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
      expect_refused(bytes, i);
      expect_refused(good.substr(0, i), i);
    }
    std::filesystem::remove(directory_.File(name));
    EXPECT_EQ(Reason(opened.tier->State(damaged.name.key, state)), "DATA_LOSS SNAPSHOT_DAMAGED");
    directory_.Write(name, good);
    ExpectKept(*opened.tier, damaged);
  }
}

// Without an index the heads are all that a start looks at; the state's turn comes when it is read.
TEST_F(DiskTierTest, AStartPutsDamagedFilesAside) {
  const std::string name = "1/0000000000001003.snap";
  Fill({one_, two_, three_});
  const std::string good = directory_.Read(name);
  const size_t head_bytes = good.size() - kDiskStateBytes;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const bool truncated : {false, true}) {
      if (!truncated && i >= head_bytes) continue;
      std::string bytes = truncated ? good.substr(0, i) : good;
      if (!truncated) bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
      directory_.Write(name, bytes);
      RemoveIndex();
      const DiskTier::Opened opened = Open();
      ASSERT_THAT(KeysOf(opened), ElementsAre(1, 2)) << i;
      ASSERT_EQ(opened.remarks.size(), 1u) << i;
      ASSERT_EQ(directory_.Read("lost+found/0000000000001003.snap"), bytes);
      std::filesystem::remove_all(directory_.File("lost+found"));
    }
  }
}

TEST_F(DiskTierTest, WhoRefersToAMissingStateIsPutAside) {
  Fill({one_, two_, three_});
  std::filesystem::remove(directory_.File("0/0000000000000001.snap"));
  const DiskTier::Opened opened = Open();
  EXPECT_THAT(KeysOf(opened), ElementsAre(0x1003));
  ASSERT_EQ(opened.remarks.size(), 1u);
  EXPECT_EQ(opened.remarks[0].path, directory_.File("lost+found/0000000000000002.snap"));
}

TEST_F(DiskTierTest, SetAsideKeepsTheBytes) {
  Fill({one_, two_, three_});
  const std::string one = directory_.Read("0/0000000000000001.snap");
  const std::string three = directory_.Read("1/0000000000001003.snap");
  const DiskTier::Opened opened = Open();
  EXPECT_TRUE(opened.tier->SetAside(0x1003).ok());
  ExpectNone(*opened.tier, 0x1003);
  EXPECT_EQ(directory_.Read("lost+found/0000000000001003.snap"), three);
  EXPECT_TRUE(opened.tier->SetAside(1).ok());
  ExpectKept(*opened.tier, two_);  // Needs the state still.
  EXPECT_TRUE(opened.tier->SetAside(2).ok());
  EXPECT_EQ(directory_.Read("lost+found/0000000000000001.state"), one);
  EXPECT_TRUE(directory_.Has("lost+found/0000000000000002.snap"));
  EXPECT_EQ(opened.tier->usage().snapshots, 0);
  EXPECT_EQ(opened.tier->usage().bytes, 0);
}

TEST_F(DiskTierTest, ANewerFormatIsNotOursToTouch) {
  Fill({one_});
  std::string bytes = directory_.Read("0/0000000000000001.snap");
  bytes[8] = 2;
  const uint64_t checksum =
      StateChecksum(std::as_bytes(std::span(bytes.data(), 56)));  // Any bytes' XXH3.
  std::memcpy(bytes.data() + 56, &checksum, 8);
  directory_.Write("0/0000000000000001.snap", bytes);
  RemoveIndex();
  EXPECT_EQ(Reason(DiskTier::Open(DiskOptions(directory_)).status()),
            "FAILED_PRECONDITION SNAPSHOT_VERSION");
  EXPECT_EQ(directory_.Read("0/0000000000000001.snap"), bytes);
}

// Threads put, fork, read and erase at once; what each holds stays as it put it.
TEST_F(DiskTierTest, ManyThreadsWorkAtOnce) {
  const DiskTier::Opened opened = Open();
  DiskTier& tier = *opened.tier;
  ASSERT_TRUE(PutAll(tier, {one_})[0].ok());
  std::atomic<SnapshotKey> next = 10;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const SnapshotKey key = next += 2;
          const std::string id = std::to_string(t);
          const DiskSnapshot own = SomeSnapshot({.key = key - 1, .state = key - 1}, id);
          const DiskSnapshot fork = SomeSnapshot({.key = key, .state = i % 2 ? key - 1 : 1}, id);
          for (const absl::Status& status : PutAll(tier, {own, fork})) {
            EXPECT_TRUE(status.ok()) << status;
          }
          ExpectKept(tier, own);
          EXPECT_TRUE(tier.Erase({&own.name.key, 1}).ok());
          ExpectKept(tier, fork);
          EXPECT_TRUE(tier.Erase({&fork.name.key, 1}).ok());
          ExpectNone(tier, fork.name.key);
        }
      });
    }
  }
  ExpectKept(tier, one_);
  EXPECT_EQ(tier.usage().snapshots, 1);
  EXPECT_EQ(tier.usage().bytes, 4096);
  EXPECT_THAT(directory_.Names(), ElementsAre("0/0000000000000001.snap"));
}

// Everyone brings the same state at once: it is written once.
TEST_F(DiskTierTest, OneStateFromManyThreadsIsWrittenOnce) {
  const DiskTier::Opened opened = Open();
  {
    std::vector<std::jthread> threads;
    for (SnapshotKey key = 1; key <= 8; ++key) {
      threads.emplace_back([&, key] {
        const DiskSnapshot snapshot = SomeSnapshot({.key = key, .state = 1}, "s");
        EXPECT_TRUE(PutAll(*opened.tier, {snapshot})[0].ok());
        ExpectKept(*opened.tier, snapshot);
      });
    }
  }
  EXPECT_EQ(opened.tier->usage().snapshots, 8);
  EXPECT_EQ(opened.tier->usage().states, 1);
  int embedding = 0;
  for (const std::string& name : directory_.Names()) embedding += directory_.Read(name)[10] == 0;
  EXPECT_EQ(embedding, 1);
}

}  // namespace
}  // namespace fermata
