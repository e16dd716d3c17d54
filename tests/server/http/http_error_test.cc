#include "server/http/http_error.h"

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

absl::Status Error(absl::StatusCode code, const ErrorDetails& details) {
  return MakeError(code, "why", details);
}

TEST(HttpErrorTest, TellsTheFieldAndTheReason) {
  const HttpResponse response = ErrorResponse(InvalidField("top_p", "must be in (0, 1]"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_THAT(response.headers, IsEmpty());
  EXPECT_EQ(nlohmann::json::parse(response.body), nlohmann::json::parse(R"({"error": {
      "message": "top_p: must be in (0, 1]", "type": "invalid_request_error", "param": "top_p",
      "code": "INVALID_FIELD", "metadata": {"field": "top_p"}}})"));
}

TEST(HttpErrorTest, TheStatusFollowsTheCode) {
  using Code = absl::StatusCode;
  for (const auto& [code, status] :
       {std::pair{Code::kInvalidArgument, 400}, std::pair{Code::kFailedPrecondition, 400},
        std::pair{Code::kNotFound, 404}, std::pair{Code::kAborted, 409},
        std::pair{Code::kAlreadyExists, 409}, std::pair{Code::kResourceExhausted, 429},
        std::pair{Code::kUnavailable, 503}, std::pair{Code::kDataLoss, 500},
        std::pair{Code::kInternal, 500}}) {
    EXPECT_EQ(HttpStatusOf(absl::Status(code, "")), status) << absl::StatusCodeToString(code);
  }
  EXPECT_EQ(HttpStatusOf(Error(Code::kAborted, {.reason = "REVISION_MISMATCH"})), 412);
}

TEST(HttpErrorTest, ClientsAreToldWhetherToRetry) {
  const HttpResponse busy = ErrorResponse(
      Error(absl::StatusCode::kAborted,
            {.reason = "SESSION_BUSY", .metadata = {}, .retry_after = absl::Milliseconds(1200)}));
  EXPECT_THAT(busy.headers, Contains(Pair("Retry-After", "2")));
  EXPECT_THAT(busy.headers, Contains(Pair("Retry-After-Ms", "1200")));
  const HttpResponse moved = ErrorResponse(
      Error(absl::StatusCode::kAborted,
            {.reason = "POSITION_MISMATCH", .metadata = {{"position", "7"}}, .retry_after = {}}));
  EXPECT_EQ(moved.status, 409);
  EXPECT_THAT(moved.headers, Contains(Pair("X-Should-Retry", "false")));
  EXPECT_EQ(nlohmann::json::parse(moved.body)["error"]["metadata"]["position"], "7");
}

TEST(HttpErrorTest, AnyBytesInAMessageMakeJson) {
  const HttpResponse response = HttpError(400, "BAD_REQUEST", "\xff\"\n");
  EXPECT_TRUE(nlohmann::json::accept(response.body));
}

}  // namespace
}  // namespace fermata
