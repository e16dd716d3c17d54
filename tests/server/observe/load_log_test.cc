#include "server/observe/load_log.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/observe/logging.h"

namespace fermata {
namespace {

TEST(LoadLogTest, TellsTheBeginningAndThenOnceASecondAtMost) {
  LoadLog log;
  absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(log.Report({}, now));
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    now += absl::Milliseconds(10);
    told += log.Report({}, now) ? 1 : 0;
  }
  EXPECT_EQ(told, 10);
  EXPECT_TRUE(log.Report({}, now + absl::Seconds(60)));
}

TEST(LoadLogTest, SaysWhatIsDoneOfHowMuch) {
  SetUpLogging({.level = LogLevel::kInfo, .format = LogFormat::kJson});
  testing::internal::CaptureStderr();
  LoadLog().Report({.phase = LoadProgress::Phase::kFingerprint,
                    .tensors_done = 3,
                    .tensors = 7,
                    .bytes_done = 100,
                    .bytes = 4000000000},
                   absl::UnixEpoch());
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line.at("event"), "loading");
  EXPECT_EQ(line.at("phase"), "fingerprint");
  EXPECT_EQ(line.at("tensors"), 3);
  EXPECT_EQ(line.at("of_tensors"), 7);
  EXPECT_EQ(line.at("bytes"), 100);
  EXPECT_EQ(line.at("of_bytes"), 4000000000);
}

}  // namespace
}  // namespace fermata
