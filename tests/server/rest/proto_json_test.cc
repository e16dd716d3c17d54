#include "server/rest/proto_json.h"

#include <string>

#include "engine/base/error.h"
#include "fermata/v1/session.pb.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace fermata {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What a request that is refused is told.
struct Refusal {
  std::string reason;
  std::string field;
  std::string message;
};

template <typename Message>
Refusal Refused(const std::string& text) {
  Message message;
  const absl::Status status = FromJson(text, &message);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
  const ErrorDetails details = DetailsOf(status);
  const auto field = details.metadata.find("field");
  return {details.reason, field == details.metadata.end() ? "" : field->second,
          std::string(status.message())};
}

TEST(FromJsonTest, ReadsWhatProtobufsMappingSays) {
  v1::UpdateSessionRequest request;
  const absl::Status status = FromJson(
      R"({"labels": {"values": {"a": "\u00e4"}}, "time_to_live": "1.5s", "durability": "DISK",
          "max_checkpoints": 0, "pinned": false, "expected_position": 7, "expectedRevision": "8"})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.labels().values().at("a"), "ä");
  EXPECT_EQ(request.time_to_live().seconds(), 1);
  EXPECT_EQ(request.time_to_live().nanos(), 500'000'000);
  EXPECT_EQ(request.durability(), v1::DISK);
  EXPECT_TRUE(request.has_max_checkpoints());
  EXPECT_TRUE(request.has_pinned());
  EXPECT_EQ(request.expected_position(), 7);
  EXPECT_EQ(request.expected_revision(), 8u);
}

TEST(FromJsonTest, NothingIsNothing) {
  v1::CreateSessionRequest request;
  EXPECT_TRUE(FromJson("", &request).ok());
  EXPECT_TRUE(FromJson(" {} ", &request).ok());
  EXPECT_EQ(request.ByteSizeLong(), 0u);
}

TEST(FromJsonTest, NamesTheFieldThatDoesNotFit) {
  using Create = v1::CreateSessionRequest;
  EXPECT_EQ(Refused<Create>(R"({"id": 5})").field, "id");
  EXPECT_EQ(Refused<Create>(R"({"id": "a", "labels": {"k": {}}})").field, "labels");
  EXPECT_EQ(Refused<Create>(R"({"max_checkpoints": 1.5})").field, "max_checkpoints");
  EXPECT_EQ(Refused<Create>(R"({"max_checkpoints": 3000000000})").field, "max_checkpoints");
  EXPECT_EQ(Refused<Create>(R"({"time_to_live": 5})").field, "time_to_live");
  EXPECT_THAT(Refused<Create>(R"({"time_to_live": "long"})").message, HasSubstr("seconds"));
  EXPECT_THAT(Refused<Create>(R"({"durability": "STONE"})").message,
              HasSubstr("durability: must be one of DURABILITY_UNSPECIFIED, MEMORY, DISK"));
  using Rewind = v1::RewindSessionRequest;
  EXPECT_EQ(Refused<Rewind>(R"({"to": {"turns": "many"}})").field, "to.turns");
  EXPECT_EQ(Refused<Rewind>(R"({"to": 3})").field, "to");
  EXPECT_EQ(Refused<Rewind>(R"({"to": {"turns": 1, "position": 2}})").field, "to");
}

TEST(FromJsonTest, NamesTheFieldThatThereIsNot) {
  const Refusal refusal = Refused<v1::CreateSessionRequest>(R"({"lables": {"a": "b"}})");
  EXPECT_EQ(refusal.reason, "INVALID_FIELD");
  EXPECT_EQ(refusal.field, "lables");
  EXPECT_THAT(refusal.message, HasSubstr("fermata.v1.CreateSessionRequest"));
  EXPECT_EQ(Refused<v1::RewindSessionRequest>(R"({"to": {"turn": 1}})").field, "to.turn");
  // An error that is logged quotes little.
  const std::string name(10'000, 'x');
  EXPECT_EQ(Refused<v1::CreateSessionRequest>("{\"" + name + "\": 1}").field.size(), 64u);
}

TEST(FromJsonTest, RefusesWhatIsNoObjectOfJson) {
  const std::string half = "{\"id\": \"\xc3\"}";
  for (const std::string& text :
       {std::string("{"), std::string("{}}"), std::string("[]"), std::string("null"),
        std::string("7"), std::string("{'id': 'a'}"), std::string("{id: \"a\"}"),
        std::string("{\"id\": \"a\",}"), std::string("{\"id\": \"\\ud800\"}"), half,
        std::string("{\"id\": \"a\", \"id\": \"b\"}")}) {
    EXPECT_EQ(Refused<v1::CreateSessionRequest>(text).reason, "INVALID_JSON") << text;
  }
}

TEST(FromJsonTest, RefusesWhatIsNestedTooDeeply) {
  for (const size_t depth : {size_t{32}, size_t{200}, size_t{1'000'000}}) {
    std::string text = "{\"labels\": ";
    text.append(depth, '[').append(depth, ']').append("}");
    const Refusal refusal = Refused<v1::CreateSessionRequest>(text);
    EXPECT_EQ(refusal.reason, "INVALID_JSON");
    EXPECT_THAT(refusal.message, HasSubstr("deep"));
  }
  // Brackets in a string are none.
  v1::CreateSessionRequest request;
  EXPECT_TRUE(
      FromJson("{\"labels\": {\"a\": \"\\\"" + std::string(99, '[') + "\"}}", &request).ok());
}

TEST(ToJsonTest, TellsDefaultsAndKeepsNames) {
  v1::Session session;
  session.set_id("a");
  session.set_position(int64_t{1} << 60);
  const auto json = nlohmann::json::parse(ToJson(session));
  EXPECT_EQ(json.at("id"), "a");
  EXPECT_EQ(json.at("position"), "1152921504606846976");  // 2^60: more than a double can count.
  EXPECT_EQ(json.at("turns"), "0");
  EXPECT_EQ(json.at("pinned"), false);
  EXPECT_EQ(json.at("labels"), nlohmann::json::object());
  EXPECT_FALSE(json.contains("pending_token"));
  EXPECT_FALSE(json.contains("time_to_live"));
  EXPECT_THAT(ToJson(session), Not(HasSubstr("\n")));
}

TEST(ToJsonTest, FromJsonReadsItBack) {
  v1::Session session;
  session.set_id("a");
  session.set_pending_token(0);
  (*session.mutable_labels())["k\"\\/"] = "\x01 ä 𝄐";
  session.mutable_time_to_live()->set_seconds(60);
  session.mutable_create_time()->set_seconds(1);
  session.set_durability(v1::MEMORY);
  session.set_revision(~uint64_t{0});
  v1::Session read;
  const absl::Status status = FromJson(ToJson(session), &read);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(read.DebugString(), session.DebugString());
}

}  // namespace
}  // namespace fermata
