#include "server/openai/openai_request.h"

#include <set>
#include <string>

#include "engine/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

TEST(OpenAiRequestTest, UsersBecomeTenants) {
  EXPECT_EQ(TenantOf("anna@example.org"), "anna@example.org");
  EXPECT_EQ(TenantOf(""), "");
  const std::string hashed = TenantOf("caf\xC3\xA9");
  EXPECT_THAT(hashed, ::testing::MatchesRegex("user-[0-9a-f]{32}"));
  EXPECT_EQ(hashed, TenantOf("caf\xC3\xA9"));
  EXPECT_NE(TenantOf(std::string(65, 'a')), TenantOf(std::string(66, 'a')));
  EXPECT_LE(TenantOf(std::string(1000, 'a')).size(), 64u);
}

TEST(OpenAiRequestTest, SeedsOfChoicesDiffer) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(SeedOf(seed, 0), seed);
    for (int index = 0; index < kMaxChoices; ++index) seeds.insert(SeedOf(seed, index));
  }
  EXPECT_EQ(seeds.size(), 4u * kMaxChoices);
}

TEST(OpenAiRequestTest, FieldsAreNamedAsTheClientKnowsThem) {
  FieldNames names = CommonFieldNames();
  names.emplace("sampling.max_new_tokens", "max_tokens");
  const absl::Status range =
      RenameField(InvalidField("sampling.max_new_tokens", "must be small"), names);
  EXPECT_EQ(DetailsOf(range).metadata["field"], "max_tokens");
  EXPECT_EQ(range.message(), "max_tokens: must be small");
  const absl::Status element = RenameField(InvalidField("sampling.stop[2]", "is empty"), names);
  EXPECT_EQ(DetailsOf(element).metadata["field"], "stop[2]");
  const absl::Status unknown = InvalidField("sampling.other", "is odd");
  EXPECT_EQ(RenameField(unknown, names), unknown);
  const absl::Status other = absl::UnavailableError("no");
  EXPECT_EQ(RenameField(other, names), other);
}

}  // namespace
}  // namespace fermata
