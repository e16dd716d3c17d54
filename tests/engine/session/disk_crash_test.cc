// What a directory of snapshots is after every call to the file system that can fail, and after a loss
// of power at each.

#include <filesystem>
#include <functional>
#include <set>

#include "gmock/gmock.h"
#include "tests/engine/session/disk_testing.h"
#include "tests/engine/session/fault_file_system.h"

namespace fermata {
namespace {

using Fault = FaultFileSystem::Fault;
using Loss = FaultFileSystem::Loss;

// Sessions that share states in every way: of forks, of checkpoints, across directories, and of a
// snapshot that is gone.
const std::vector<DiskSnapshot> kBefore = {
    SomeSnapshot({.key = 1, .state = 1}, "a"),
    SomeSnapshot({.key = 2, .state = 1}, "fork-of-a"),
    SomeSnapshot({.key = 3, .state = 3}, "c"),
    SomeSnapshot({.key = 4, .state = 3}, "c"),
    SomeSnapshot({.key = 5, .state = 5}, "c"),
    SomeSnapshot({.key = 7, .state = 6}, "of-a-state-alone"),
    SomeSnapshot({.key = 0x1000, .state = 0x1000}, "d"),
    SomeSnapshot({.key = 0x1001, .state = 5}, "fork-of-c"),
};
const DiskSnapshot kGone = SomeSnapshot({.key = 6, .state = 6}, "gone");

using Keys = std::set<SnapshotKey>;

class DiskCrashTest : public testing::Test {
 protected:
  DiskCrashTest() {
    std::vector<DiskSnapshot> all = kBefore;
    all.push_back(kGone);
    std::swap(all[5], all.back());  // Before the one that refers to its state.
    const DiskTier::Opened opened = MustOpen(DiskOptions(image_));
    for (const absl::Status& status : PutAll(*opened.tier, all)) EXPECT_TRUE(status.ok()) << status;
    const SnapshotKey gone = kGone.name.key;
    EXPECT_TRUE(opened.tier->Erase({&gone, 1}).ok());
    for (const DiskSnapshot& snapshot : kBefore) known_[snapshot.name.key] = snapshot;
  }

  // What an operation did: snapshots that must be there after it, and those that may.
  struct Outcome {
    Keys must, may;
  };
  using Operation = std::function<void(DiskTier& tier, Outcome& outcome)>;

  // Runs `operation` with each of its calls failing in each way, then a crash, and looks what is
  // left.
  void FailEverywhere(const Operation& operation) {
    for (const Fault fault :
         {Fault::kPowerLoss, Fault::kFailed, Fault::kDoneAndFailed, Fault::kFull}) {
      bool reached = true;
      for (int call = 1; reached; ++call) {
        ASSERT_LT(call, 200);
        for (uint32_t seed = 0; seed < (fault == Fault::kPowerLoss ? 8u : 3u) && reached; ++seed) {
          SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " at call "
                                          << call << ", seed " << seed);
          reached = FailOnce(operation, call, fault, seed);
          if (HasFailure()) return;
        }
      }
    }
  }

  bool FailOnce(const Operation& operation, int call, Fault fault, uint32_t seed) {
    directory_.CopyFrom(image_);
    FaultFileSystem files(directory_.path());
    Outcome outcome;
    for (const DiskSnapshot& snapshot : kBefore) outcome.must.insert(snapshot.name.key);
    bool reached;
    {
      const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
      files.FailAt(call, fault);
      operation(*opened.tier, outcome);
      reached = files.StopFailing();
      if (fault != Fault::kPowerLoss) ExpectThere(*opened.tier, outcome, Keys());
    }
    static constexpr Loss kLosses[] = {Loss::kSome, Loss::kAll, Loss::kNone};
    files.Crash(kLosses[seed < 3 ? seed : 0], seed);
    if (seed % 2 == 1) std::filesystem::remove(directory_.File("index.db"));
    ExpectWhole(outcome, files);
    return reached;
  }

  void ExpectThere(const DiskTier& tier, const Outcome& outcome, const Keys& found) {
    for (const auto& [key, snapshot] : known_) {
      if (outcome.must.contains(key) || found.contains(key)) ExpectKept(tier, snapshot);
    }
  }

  void ExpectWhole(const Outcome& outcome, FaultFileSystem& files) {
    const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
    Keys found, states;
    for (const DiskTier::Found& snapshot : opened.snapshots) {
      const SnapshotKey key = snapshot.name.key;
      found.insert(key);
      states.insert(snapshot.name.state);
      EXPECT_TRUE(outcome.must.contains(key) || outcome.may.contains(key)) << key;
      EXPECT_EQ(snapshot.record, known_.at(key).record);
    }
    EXPECT_TRUE(std::includes(found.begin(), found.end(), outcome.must.begin(), outcome.must.end()))
        << testing::PrintToString(found);
    ExpectThere(*opened.tier, outcome, found);
    for (const DiskTier::Remark& remark : opened.remarks) {
      EXPECT_THAT(remark.path, testing::EndsWith(".tmp")) << remark.what;
    }
    EXPECT_EQ(opened.tier->usage().snapshots, static_cast<int64_t>(found.size()));
    EXPECT_EQ(opened.tier->usage().states, static_cast<int64_t>(states.size()));
    ExpectNoOtherFiles(found, states);
  }

  // Nothing is left but the snapshots, states whose snapshot is gone, and what was moved aside.
  void ExpectNoOtherFiles(const Keys& found, const Keys& states) {
    Keys kept_alone;
    for (const SnapshotKey state : states) {
      if (!found.contains(state)) kept_alone.insert(state);
    }
    size_t snapshot_files = 0, state_files = 0, others = 0;
    for (const std::string& name : directory_.Names()) {
      if (name.starts_with("lost+found/")) continue;
      ++(name.ends_with(".snap")    ? snapshot_files
         : name.ends_with(".state") ? state_files
                                    : others);
    }
    EXPECT_EQ(snapshot_files, found.size()) << testing::PrintToString(directory_.Names());
    EXPECT_LE(state_files, kept_alone.size()) << testing::PrintToString(directory_.Names());
    EXPECT_EQ(others, 0u) << testing::PrintToString(directory_.Names());
  }

  // Erases `keys`; with an error, once more.
  void FailErase(const std::vector<SnapshotKey>& keys) {
    FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
      for (const SnapshotKey key : keys) outcome.must.erase(key);
      const absl::Status erased = tier.Erase(keys);
      if (!erased.ok()) outcome.may.insert(keys.begin(), keys.end());
    });
    // What failed once is made good by the next call.
    FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
      for (const SnapshotKey key : keys) outcome.must.erase(key);
      const absl::Status erased = tier.Erase(keys);
      if (!erased.ok() && !tier.Erase(keys).ok()) outcome.may.insert(keys.begin(), keys.end());
    });
  }

  DiskDir image_;
  DiskDir directory_;
  std::map<SnapshotKey, DiskSnapshot> known_;
};

TEST_F(DiskCrashTest, PutIsWholeOrNotAtAll) {
  const std::vector<DiskSnapshot> news = {
      SomeSnapshot({.key = 0x1002, .state = 0x1002}, "a"),
      SomeSnapshot({.key = 0x1003, .state = 0x1002}, "fork-of-new"),
      SomeSnapshot({.key = 0x1004, .state = 1}, "another-fork-of-a"),
      SomeSnapshot({.key = 0x2000, .state = 0x2000}, "in-a-new-directory"),
  };
  for (const DiskSnapshot& snapshot : news) known_[snapshot.name.key] = snapshot;
  FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
    const std::vector<absl::Status> statuses = PutAll(tier, news);
    for (size_t i = 0; i < news.size(); ++i) {
      const SnapshotKey key = news[i].name.key;
      (statuses[i].ok() ? outcome.must : outcome.may).insert(key);
      if (!statuses[i].ok()) ExpectNone(tier, key);
    }
  });
  // One failure does not become another's.
  FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
    PutAll(tier, news);
    for (const DiskSnapshot& snapshot : news) {
      const bool there = tier.Record(snapshot.name.key).ok();
      const bool put = there || PutAll(tier, {snapshot})[0].ok();
      (put ? outcome.must : outcome.may).insert(snapshot.name.key);
    }
  });
}

TEST_F(DiskCrashTest, EraseOfASnapshotThatRefersToItsState) { FailErase({2}); }
TEST_F(DiskCrashTest, EraseOfASnapshotWhoseStateOthersHave) { FailErase({1}); }
TEST_F(DiskCrashTest, EraseOfAllThatHaveAState) { FailErase({1, 2}); }
TEST_F(DiskCrashTest, EraseOfTheLastThatHasAStateOfOneThatIsGone) { FailErase({7}); }
TEST_F(DiskCrashTest, EraseAcrossDirectories) { FailErase({0x1000, 5, 0x1001, 2}); }

TEST_F(DiskCrashTest, TheNewestSnapshotOfASessionGoesLast) {
  const std::vector<SnapshotKey> keys = {3, 4, 5};
  FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
    for (const SnapshotKey key : keys) outcome.must.erase(key);
    if (!tier.Erase(keys).ok()) outcome.may.insert(keys.begin(), keys.end());
  });
  for (uint32_t seed = 0; seed < 200; ++seed) {
    directory_.CopyFrom(image_);
    FaultFileSystem files(directory_.path());
    {
      const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
      files.FailAt(1 + static_cast<int>(seed % 10), Fault::kPowerLoss);
      opened.tier->Erase(keys).IgnoreError();
    }
    files.Crash(Loss::kSome, seed);
    Keys found;
    for (const auto& snapshot : MustOpen(DiskOptions(directory_, &files)).snapshots) {
      found.insert(snapshot.name.key);
    }
    EXPECT_TRUE(found.contains(5) || (!found.contains(3) && !found.contains(4))) << seed;
  }
}

TEST_F(DiskCrashTest, SetAsideTakesNothingElseAway) {
  FailEverywhere([&](DiskTier& tier, Outcome& outcome) {
    for (const SnapshotKey key : {1, 0x1000}) {
      outcome.must.erase(key);
      if (!tier.SetAside(key).ok()) outcome.may.insert(key);
    }
  });
}

// A start on what a crash left, and on what others put there.
TEST_F(DiskCrashTest, OpenLosesNothing) {
  image_.Write("1/0000000000001002.1.tmp", "half a file");
  image_.Write("note.txt", "not ours");
  image_.Write("0/0000000000000009.snap", "no snapshot");
  std::filesystem::copy(image_.File("0/0000000000000003.snap"),
                        image_.File("0/0000000000000008.state"));
  for (const Fault fault : {Fault::kPowerLoss, Fault::kFailed, Fault::kDoneAndFailed}) {
    bool reached = true;
    for (int call = 1; reached; ++call) {
      ASSERT_LT(call, 200);
      directory_.CopyFrom(image_);
      if (call % 2 == 1) std::filesystem::remove(directory_.File("index.db"));
      FaultFileSystem files(directory_.path());
      files.FailAt(call, fault);
      DiskTier::Open(DiskOptions(directory_, &files)).status().IgnoreError();
      reached = files.StopFailing();
      files.Crash(Loss::kSome, call);
      const DiskTier::Opened opened = MustOpen(DiskOptions(directory_, &files));
      SCOPED_TRACE(testing::Message() << static_cast<int>(fault) << " at call " << call);
      EXPECT_EQ(opened.snapshots.size(), kBefore.size());
      for (const DiskSnapshot& snapshot : kBefore) ExpectKept(*opened.tier, snapshot);
      EXPECT_EQ(directory_.Read("lost+found/0000000000001002.1.tmp"), "half a file");
      EXPECT_EQ(directory_.Read("lost+found/note.txt"), "not ours");
      EXPECT_EQ(directory_.Read("lost+found/0000000000000009.snap"), "no snapshot");
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace fermata
