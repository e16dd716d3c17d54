#include <string>

#include "engine/base/error.h"
#include "engine/session/page_token.h"
#include "engine/session/session_store.h"
#include "engine/session/tombstones.h"
#include "gmock/gmock.h"

namespace fermata {
namespace {

TEST(ValidateTest, SessionIds) {
  for (const std::string id : {"a", "Z", "0", "s-1", "a.b_c:d-e", "9.:_-"}) {
    EXPECT_TRUE(ValidateSessionId(id, "id").ok()) << id;
  }
  EXPECT_TRUE(ValidateSessionId(std::string(128, 'x'), "id").ok());
  for (const std::string id :
       {"", "-a", ".a", "_a", ":a", "a b", "a/b", "a\n", "\xc3\xa9", "a\xff"}) {
    EXPECT_FALSE(ValidateSessionId(id, "id").ok()) << id;
  }
  EXPECT_FALSE(ValidateSessionId(std::string("a\0b", 3), "id").ok());
  const absl::Status status = ValidateSessionId(std::string(129, 'x'), "session.id");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(DetailsOf(status).metadata["field"], "session.id");
}

TEST(ValidateTest, Labels) {
  const auto ok = [](const std::string& key, const std::string& value) {
    return ValidateLabels({{key, value}}, "labels").ok();
  };
  EXPECT_TRUE(ok("a", ""));
  EXPECT_TRUE(ok("fermata.dev/user-name_1", "\xe2\x82\xac and \xf0\x9f\x8e\xb5"));
  EXPECT_TRUE(ok(std::string(63, 'k'), std::string(255, 'v')));
  EXPECT_FALSE(ok("", "v"));
  EXPECT_FALSE(ok("/a", "v"));
  EXPECT_FALSE(ok("a b", "v"));
  EXPECT_FALSE(ok(std::string(64, 'k'), "v"));
  EXPECT_FALSE(ok("k", std::string(256, 'v')));
  EXPECT_FALSE(ok("k", "\xff"));
  EXPECT_FALSE(ok("k", "\xe2\x82"));          // Cut off.
  EXPECT_FALSE(ok("k", "\xc0\xaf"));          // Overlong.
  EXPECT_FALSE(ok("k", "\xed\xa0\x80"));      // A surrogate.
  EXPECT_FALSE(ok("k", "\xf4\x90\x80\x80"));  // Beyond U+10FFFF.
  std::map<std::string, std::string> labels;
  for (int i = 0; i < 32; ++i) labels["k" + std::to_string(i)] = "v";
  EXPECT_TRUE(ValidateLabels(labels, "labels").ok());
  labels["k"] = "v";
  EXPECT_EQ(DetailsOf(ValidateLabels(labels, "labels")).metadata["field"], "labels");
}

TEST(ValidateTest, Ttl) {
  EXPECT_TRUE(ValidateTtl(absl::Milliseconds(1), "ttl").ok());
  EXPECT_TRUE(ValidateTtl(absl::Hours(24 * 36500), "ttl").ok());
  for (const absl::Duration ttl : {absl::ZeroDuration(), absl::Microseconds(999), absl::Seconds(-1),
                                   absl::Hours(24 * 36526), absl::InfiniteDuration()}) {
    EXPECT_EQ(DetailsOf(ValidateTtl(ttl, "ttl")).metadata["field"], "ttl") << ttl;
  }
}

TEST(PageTokenTest, OnlyOursAreTaken) {
  const std::map<std::string, std::string> labels = {{"a", "b"}};
  const std::string token = EncodePageToken("s-1", labels);
  EXPECT_EQ(DecodePageToken(token, labels).value(), "s-1");
  EXPECT_EQ(DecodePageToken("", labels).value(), "");
  EXPECT_FALSE(DecodePageToken(token, {}).ok());
  EXPECT_FALSE(DecodePageToken(token, {{"a", "c"}}).ok());
  EXPECT_FALSE(DecodePageToken(token, {{"a", "b"}, {"c", "d"}}).ok());
  EXPECT_FALSE(DecodePageToken(token + "=", labels).ok());
  for (const std::string text : {"s-1", "x", "!!", "AAAAAAAAAAA", "AAAAAAAAAAAA"}) {
    EXPECT_EQ(DetailsOf(DecodePageToken(text, labels).status()).metadata["field"], "page_token")
        << text;
  }
  for (size_t i = 0; i < token.size(); ++i) {
    std::string altered = token;
    altered[i] = altered[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(DecodePageToken(altered, labels).ok()) << i;
  }
}

TEST(TombstonesTest, RemembersTheLatest) {
  Tombstones tombstones(3);
  for (const char* id : {"a", "b", "c", "d"}) tombstones.Add(id);
  EXPECT_FALSE(tombstones.Has("a"));
  for (const char* id : {"b", "c", "d"}) EXPECT_TRUE(tombstones.Has(id)) << id;
  tombstones.Remove("c");
  EXPECT_FALSE(tombstones.Has("c"));
}

TEST(TombstonesTest, AnIdLostTwiceCountsFromTheSecondTime) {
  Tombstones tombstones(3);
  tombstones.Add("a");
  tombstones.Remove("a");
  tombstones.Add("b");
  tombstones.Add("a");
  tombstones.Add("c");
  EXPECT_TRUE(tombstones.Has("a"));
  tombstones.Add("d");
  EXPECT_TRUE(tombstones.Has("a"));
  tombstones.Add("e");
  EXPECT_FALSE(tombstones.Has("a"));
}

}  // namespace
}  // namespace fermata
