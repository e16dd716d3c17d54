#include "engine/base/error.h"

#include <string>

#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(ErrorTest, DetailsComeBack) {
  const absl::Status status = MakeError(absl::StatusCode::kResourceExhausted, "the queue is full",
                                        {.reason = "QUEUE_FULL",
                                         .metadata = {{"limit", "64"}, {"queue", "prefill"}},
                                         .retry_after = absl::Milliseconds(1500)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()), "the queue is full");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "QUEUE_FULL");
  EXPECT_EQ(details.metadata,
            (std::map<std::string, std::string>{{"limit", "64"}, {"queue", "prefill"}}));
  EXPECT_EQ(details.retry_after, absl::Milliseconds(1500));
}

TEST(ErrorTest, NoRetryMeansNone) {
  EXPECT_EQ(DetailsOf(InvalidField("sampling.top_p", "0 is outside (0, 1]")).retry_after,
            std::nullopt);
}

TEST(ErrorTest, InvalidFieldNamesTheField) {
  const absl::Status status = InvalidField("sampling.top_p", "0 is outside (0, 1]");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "sampling.top_p: 0 is outside (0, 1]");
  EXPECT_EQ(DetailsOf(status).reason, "INVALID_FIELD");
  EXPECT_EQ(DetailsOf(status).metadata.at("field"), "sampling.top_p");
}

TEST(ErrorTest, OtherStatusesAreNamedAfterTheirCode) {
  const ErrorDetails details = DetailsOf(absl::NotFoundError("gone"));
  EXPECT_EQ(details.reason, "NOT_FOUND");
  EXPECT_TRUE(details.metadata.empty());
}

TEST(ErrorTest, BytesThatAreNotTextDoNoHarm) {
  const std::string bytes("\xff\xfe\0quote\"", 9);
  const absl::Status status =
      MakeError(absl::StatusCode::kInvalidArgument, bytes,
                {.reason = "BAD", .metadata = {{"id", bytes}}, .retry_after = {}});
  EXPECT_EQ(DetailsOf(status).reason, "BAD");
  EXPECT_TRUE(DetailsOf(status).metadata.at("id").ends_with("quote\""));
}

}  // namespace
}  // namespace fermata
