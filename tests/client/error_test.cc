#include "client/error.h"

#include <google/protobuf/util/json_util.h>

#include "client/cli/output.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace fermata::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// The trailer of an answer that carries `details`.
template <typename... Details>
grpc::Status Answer(grpc::StatusCode code, const Details&... details) {
  google::rpc::Status trailer;
  trailer.set_code(code);
  (trailer.add_details()->PackFrom(details), ...);
  return grpc::Status(code, "why", trailer.SerializeAsString());
}

google::rpc::ErrorInfo Info() {
  google::rpc::ErrorInfo info;
  info.set_reason("POSITION_MISMATCH");
  info.set_domain("fermata");
  (*info.mutable_metadata())["position"] = "42";
  return info;
}

google::rpc::RetryInfo Retry() {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  return retry;
}

TEST(ErrorTest, KeepsCodeAndMessage) {
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  // The numbers of google.rpc.Code, by which both sides name them.
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "why");
  }
  EXPECT_TRUE(absl::IsAborted(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, ""))));
  EXPECT_TRUE(absl::IsUnauthenticated(FromGrpc(grpc::Status(grpc::UNAUTHENTICATED, ""))));
}

TEST(ErrorTest, TakesDetailsApart) {
  const absl::Status status = FromGrpc(Answer(grpc::StatusCode::ABORTED, Info(), Retry()));
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "POSITION_MISMATCH");
  EXPECT_EQ(details.domain, "fermata");
  EXPECT_THAT(details.metadata, ElementsAre(Pair("position", "42")));
  EXPECT_EQ(details.retry_after, absl::Milliseconds(1500));
}

TEST(ErrorTest, DoesWithoutDetails) {
  for (const grpc::Status& answer :
       {grpc::Status(grpc::StatusCode::NOT_FOUND, "why"),
        grpc::Status(grpc::StatusCode::NOT_FOUND, "why", "\xff not a message"),
        Answer(grpc::StatusCode::NOT_FOUND)}) {
    const absl::Status status = FromGrpc(answer);
    EXPECT_TRUE(absl::IsNotFound(status));
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.reason, "");
    EXPECT_THAT(details.metadata, IsEmpty());
    EXPECT_FALSE(details.retry_after.has_value());
  }
  EXPECT_FALSE(DetailsOf(FromGrpc(Answer(grpc::StatusCode::ABORTED, Info()))).retry_after);
}

TEST(ErrorTest, Describes) {
  EXPECT_EQ(Describe(FromGrpc(Answer(grpc::StatusCode::ABORTED, Info(), Retry()))),
            "ABORTED: why [POSITION_MISMATCH] (retry after 1.5s)");
  EXPECT_EQ(Describe(absl::UnavailableError("gone")), "UNAVAILABLE: gone");
}

TEST(ErrorTest, PrintsAsJson) {
  EXPECT_EQ(cli::ErrorJson(FromGrpc(Answer(grpc::StatusCode::ABORTED, Info(), Retry()))),
            R"({"error":{"code":"ABORTED","message":"why","reason":"POSITION_MISMATCH",)"
            R"("metadata":{"position":"42"},"retry_after_seconds":1.5}})");
}

}  // namespace
}  // namespace fermata::client
