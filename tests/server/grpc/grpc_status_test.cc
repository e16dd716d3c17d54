#include "server/grpc/grpc_status.h"

#include <string>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fermata {
namespace {

// The details as a client takes them apart.
struct Parsed {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
};

Parsed Parse(const grpc::Status& status) {
  Parsed parsed;
  EXPECT_TRUE(parsed.status.ParseFromString(status.error_details()));
  if (parsed.status.details_size() > 0) parsed.status.details(0).UnpackTo(&parsed.info);
  if (parsed.status.details_size() > 1) parsed.status.details(1).UnpackTo(&parsed.retry);
  return parsed;
}

TEST(GrpcStatusTest, OkIsOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(GrpcStatusTest, CarriesReasonMetadataAndDelay) {
  const grpc::Status status = ToGrpcStatus(MakeError(absl::StatusCode::kAborted, "not there",
                                                     {.reason = "POSITION_MISMATCH",
                                                      .metadata = {{"position", "17"}},
                                                      .retry_after = absl::Milliseconds(1500)}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "not there");
  const Parsed parsed = Parse(status);
  EXPECT_EQ(parsed.status.code(), 10);
  EXPECT_EQ(parsed.status.message(), "not there");
  ASSERT_EQ(parsed.status.details_size(), 2);
  EXPECT_EQ(parsed.status.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(parsed.status.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  EXPECT_EQ(parsed.info.reason(), "POSITION_MISMATCH");
  EXPECT_EQ(parsed.info.domain(), "fermata");
  EXPECT_EQ(parsed.info.metadata().at("position"), "17");
  EXPECT_EQ(parsed.retry.retry_delay().seconds(), 1);
  EXPECT_EQ(parsed.retry.retry_delay().nanos(), 500'000'000);
}

TEST(GrpcStatusTest, NamesTheField) {
  const Parsed parsed = Parse(ToGrpcStatus(InvalidField("sampling.top_p", "is NaN")));
  EXPECT_EQ(parsed.info.reason(), "INVALID_FIELD");
  EXPECT_EQ(parsed.info.metadata().at("field"), "sampling.top_p");
  EXPECT_EQ(parsed.status.details_size(), 1);
}

TEST(GrpcStatusTest, EveryCodeStaysWhatItIs) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    EXPECT_EQ(ToGrpcStatus(status).error_code(), code);
    EXPECT_FALSE(Parse(ToGrpcStatus(status)).info.reason().empty());
  }
}

TEST(GrpcStatusTest, LongAndBrokenTextsFitIntoTrailers) {
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < 100; ++i) metadata["key" + std::to_string(i)] = std::string(5000, 'v');
  // 'é' whole at any cut, and a byte that is no UTF-8.
  std::string text = "\xFF";
  for (int i = 0; i < 5000; ++i) text += "\xC3\xA9";
  const grpc::Status status = ToGrpcStatus(MakeError(
      absl::StatusCode::kInternal, text, {.reason = "X", .metadata = metadata, .retry_after = {}}));
  // gRPC sends the message in percent encoding, three bytes for each of these, and the details in
  // base64.
  EXPECT_LE(status.error_message().size() * 3 + status.error_details().size() * 4 / 3, 8192u);
  const std::string message = status.error_message();
  EXPECT_EQ(message.substr(0, 5), "\xEF\xBF\xBD\xC3\xA9");
  EXPECT_EQ(message.substr(message.size() - 2), "\xC3\xA9");
  EXPECT_EQ(Parse(status).status.message(), message);
}

}  // namespace
}  // namespace fermata
