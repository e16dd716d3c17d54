#include "engine/session/fsck.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "tests/engine/session/disk_testing.h"

namespace fermata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class FsckTest : public testing::Test {
 protected:
  FsckTest() {
    const DiskTier::Opened opened = MustOpen(DiskOptions(directory_));
    for (const absl::Status& status : PutAll(*opened.tier, {one_, two_, three_})) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  FsckReport Check(bool set_aside = false) {
    FsckOptions options;
    options.directory = directory_.path();
    options.set_aside = set_aside;
    absl::StatusOr<FsckReport> report = Fsck(options);
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->index.ok()) << report->index;
    return *std::move(report);
  }
  // Flips a bit of the last byte.
  void Damage(const std::string& name) {
    std::string bytes = directory_.Read(name);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    directory_.Write(name, bytes);
  }

  DiskDir directory_;
  const DiskSnapshot one_ = SomeSnapshot({.key = 1, .state = 1}, "a");
  const DiskSnapshot two_ = SomeSnapshot({.key = 2, .state = 1}, "b");
  const DiskSnapshot three_ = SomeSnapshot({.key = 3, .state = 3}, "a");
};

TEST_F(FsckTest, AWholeDirectoryIsWhole) {
  const FsckReport report = Check();
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[1].file, "0/0000000000000002.snap");
  EXPECT_EQ(report.rows[1].role, "snapshot");
  EXPECT_EQ(report.rows[1].session_id, "b");
  EXPECT_EQ(report.rows[1].position, two_.record.position);
  EXPECT_EQ(report.rows[1].bytes,
            static_cast<int64_t>(directory_.Read("0/0000000000000002.snap").size()));
  for (const FsckRow& row : report.rows) EXPECT_TRUE(row.verdict.ok()) << row.verdict;
  EXPECT_EQ(report.snapshots, 3);
  EXPECT_EQ(report.sessions, 2);
  EXPECT_EQ(report.bad, 0);
  EXPECT_THAT(report.models, ElementsAre(Pair("f00d", 3)));
}

// The start that follows has nothing to say, and reads no head: the index is whole.
TEST_F(FsckTest, TheIndexIsMadeAnew) {
  directory_.Write("index.db", "not a database");
  Check();
  const DiskTier::Opened opened = MustOpen(DiskOptions(directory_));
  EXPECT_TRUE(opened.remarks.empty());
  EXPECT_EQ(opened.snapshots.size(), 3u);
  for (const DiskSnapshot& snapshot : {one_, two_, three_}) ExpectKept(*opened.tier, snapshot);
}

TEST_F(FsckTest, DamageIsToldOfAllWhoHaveIt) {
  Damage("0/0000000000000001.snap");  // In the state that two refers to.
  directory_.Write("0/0000000000000009.1.tmp", "half");
  directory_.Write("readme", "?");
  const auto names = directory_.Names();
  for (const bool set_aside : {false, true}) {
    const FsckReport report = Check(set_aside);
    ASSERT_EQ(report.rows.size(), 5u);
    EXPECT_THAT(std::string(report.rows[0].verdict.message()), HasSubstr("damaged at byte"));
    EXPECT_THAT(std::string(report.rows[1].verdict.message()), HasSubstr("its state"));
    EXPECT_TRUE(report.rows[2].verdict.ok());
    EXPECT_EQ(report.snapshots, 1);
    EXPECT_EQ(report.bad, 4);
    if (!set_aside) {
      EXPECT_EQ(directory_.Names(), names);
    }
  }
  EXPECT_THAT(directory_.Names(),
              ElementsAre("0/0000000000000003.snap", "lost+found/0000000000000001.snap",
                          "lost+found/0000000000000002.snap", "lost+found/0000000000000009.1.tmp",
                          "lost+found/readme"));
  const DiskTier::Opened opened = MustOpen(DiskOptions(directory_));
  EXPECT_TRUE(opened.remarks.empty());
  ExpectKept(*opened.tier, three_);
}

TEST_F(FsckTest, AStateOfItsOwnIsChecked) {
  const SnapshotKey key = 1;
  EXPECT_TRUE(MustOpen(DiskOptions(directory_)).tier->Erase({&key, 1}).ok());
  EXPECT_EQ(Check().bad, 0);
  Damage("0/0000000000000001.state");
  const FsckReport report = Check();
  EXPECT_EQ(report.rows[0].role, "state");
  EXPECT_EQ(report.bad, 2);
}

TEST_F(FsckTest, EveryFlippedByteIsFound) {
  for (const char* name : {"0/0000000000000001.snap", "0/0000000000000002.snap"}) {
    const std::string good = directory_.Read(name);
    for (size_t i = 0; i < good.size(); i += 7) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x04);
      directory_.Write(name, bytes);
      EXPECT_GE(Check().bad, 1) << i;
    }
    directory_.Write(name, good);
  }
  EXPECT_EQ(Check().bad, 0);
}

TEST_F(FsckTest, ADirectoryInUseOrOfOthersIsLeftAlone) {
  FsckOptions options;
  options.directory = directory_.path();
  {
    const DiskTier::Opened opened = MustOpen(DiskOptions(directory_));
    EXPECT_EQ(Reason(Fsck(options).status()), "FAILED_PRECONDITION DIRECTORY_LOCKED");
  }
  const DiskDir others;
  others.Write("thesis.txt", "years of work");
  options.directory = others.path();
  options.set_aside = true;
  EXPECT_EQ(Reason(Fsck(options).status()), "FAILED_PRECONDITION DIRECTORY_FOREIGN");
  EXPECT_TRUE(others.Has("thesis.txt"));
  options.directory += "/missing";
  EXPECT_TRUE(absl::IsNotFound(Fsck(options).status()));
}

}  // namespace
}  // namespace fermata
