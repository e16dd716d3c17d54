#include "engine/scheduler/places.h"

#include <string>

#include "engine/base/error.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

std::string Refusal(Places& places, const std::string& tenant) {
  const absl::Status status = places.Take(tenant);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(status).retry_after, absl::Seconds(3));
  return DetailsOf(status).reason;
}

Places Of(int max_running, int max_queued, int max_queued_per_tenant) {
  return Places({.max_running = max_running,
                 .max_queued = max_queued,
                 .max_queued_per_tenant = max_queued_per_tenant,
                 .retry_after = absl::Seconds(3)});
}

TEST(PlacesTest, AllTogetherAreLimited) {
  Places places = Of(2, 3, 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Refusal(places, "t"), "");
  EXPECT_EQ(Refusal(places, "t"), "QUEUE_FULL");
  EXPECT_EQ(Refusal(places, "u"), "QUEUE_FULL");
  places.Release("t", /*ran=*/false);
  EXPECT_EQ(Refusal(places, "u"), "");
  EXPECT_EQ(places.taken(), 5);
}

TEST(PlacesTest, EachTenantIsLimited) {
  Places places = Of(1, 100, 2);
  EXPECT_EQ(Refusal(places, "t"), "");
  places.StartRunning("t");
  EXPECT_EQ(Refusal(places, "t"), "");
  EXPECT_EQ(Refusal(places, "t"), "");
  EXPECT_EQ(Refusal(places, "t"), "TENANT_QUEUE_FULL");
  EXPECT_EQ(Refusal(places, ""), "");
  EXPECT_EQ(Refusal(places, "u"), "");

  places.Release("t", /*ran=*/true);
  places.StartRunning("t");
  EXPECT_EQ(Refusal(places, "t"), "");
  EXPECT_EQ(Refusal(places, "t"), "TENANT_QUEUE_FULL");
  places.Release("t", /*ran=*/false);
  EXPECT_EQ(Refusal(places, "t"), "");
}

// Requests that have come and not yet been looked at wait for nothing while places are free.
TEST(PlacesTest, TheLimitDoesNotHoldWhileThereAreFreePlaces) {
  Places places = Of(4, 100, 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Refusal(places, "t"), "") << i;
  EXPECT_EQ(Refusal(places, "t"), "TENANT_QUEUE_FULL");
}

}  // namespace
}  // namespace fermata
