#include "server/rest/requests.h"

#include <string>

#include "engine/base/error.h"
#include "gmock/gmock.h"

namespace fermata {
namespace {

HttpRequest On(const std::string& id, const std::string& body = "") {
  HttpRequest http;
  http.parameters["id"] = id;
  http.body = body;
  return http;
}

HttpRequest WithQuery(std::map<std::string, std::string> query) {
  HttpRequest http = On("a");
  http.query = std::move(query);
  return http;
}

HttpRequest IfMatch(const std::string& value, const std::string& body = "") {
  HttpRequest http = On("a", body);
  http.headers = {{"if-match", value}};
  return http;
}

std::string FieldOf(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return DetailsOf(status).metadata["field"];
}

TEST(RequestsTest, ThePathSaysTheId) {
  EXPECT_EQ(ToGetSession(On("a"))->id(), "a");
  EXPECT_EQ(ToRewindSession(On("a", R"({"id": "a"})"))->id(), "a");
  EXPECT_EQ(FieldOf(ToRewindSession(On("a", R"({"id": "b"})")).status()), "id");
  EXPECT_EQ(ToForkSession(On("a", R"({"new_id": "b"})"))->new_id(), "b");
  EXPECT_EQ(ToExportSession(On("a"))->id(), "a");
}

TEST(RequestsTest, IfMatchIsTheExpectedRevision) {
  EXPECT_EQ(ToUpdateSession(IfMatch("\"7\""))->expected_revision(), 7u);
  EXPECT_EQ(ToDeleteSession(IfMatch("\"18446744073709551615\""))->expected_revision(),
            ~uint64_t{0});
  EXPECT_EQ(ToRewindSession(IfMatch("\"7\""))->expected_revision(), 7u);
  EXPECT_EQ(ToForkSession(IfMatch("\"7\""))->expected_revision(), 7u);
  EXPECT_FALSE(ToUpdateSession(IfMatch("*"))->has_expected_revision());
  EXPECT_FALSE(ToUpdateSession(On("a"))->has_expected_revision());
  for (const char* wrong : {"7", "", "\"", "\"\"", "\"x\"", "W/\"7\"", "\"7\", \"8\"", "\"-1\""}) {
    EXPECT_EQ(FieldOf(ToUpdateSession(IfMatch(wrong)).status()), "If-Match") << wrong;
  }
  EXPECT_EQ(ToUpdateSession(IfMatch("\"7\"", R"({"expected_revision": 7})"))->expected_revision(),
            7u);
  EXPECT_EQ(FieldOf(ToUpdateSession(IfMatch("\"7\"", R"({"expected_revision": 8})")).status()),
            "expected_revision");
}

TEST(RequestsTest, TheQueryOfAListing) {
  const auto request = ToListSessions(WithQuery(
      {{"page_size", "40"}, {"page_token", "t"}, {"labels.a", "x"}, {"labels.b.c/d", "y z"}}));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->page_size(), 40);
  EXPECT_EQ(request->page_token(), "t");
  EXPECT_EQ(request->labels_size(), 2);
  EXPECT_EQ(request->labels().at("a"), "x");
  EXPECT_EQ(request->labels().at("b.c/d"), "y z");
  EXPECT_EQ(ToListSessions(WithQuery({}))->ByteSizeLong(), 0u);
  for (const char* wrong : {"", "x", "-1", "1.5", "99999999999"}) {
    EXPECT_EQ(FieldOf(ToListSessions(WithQuery({{"page_size", wrong}})).status()), "page_size");
  }
}

TEST(RequestsTest, ThePlaceOfAnExport) {
  EXPECT_EQ(ToExportSession(WithQuery({{"turns", "0"}}))->from().turns(), 0);
  EXPECT_TRUE(ToExportSession(WithQuery({{"turns", "0"}}))->from().has_turns());
  EXPECT_EQ(ToExportSession(WithQuery({{"position", "12"}}))->from().position(), 12);
  EXPECT_TRUE(
      ToExportSession(WithQuery({{"before_last_turn", "true"}}))->from().before_last_turn());
  EXPECT_EQ(ToExportSession(WithQuery({{"before_last_turn", "false"}}))->from().place_case(),
            v1::Checkpoint::PLACE_NOT_SET);
  EXPECT_EQ(FieldOf(ToExportSession(WithQuery({{"turns", "-1"}})).status()), "turns");
  EXPECT_EQ(FieldOf(ToExportSession(WithQuery({{"before_last_turn", "yes"}})).status()),
            "before_last_turn");
  EXPECT_EQ(FieldOf(ToExportSession(WithQuery({{"turns", "1"}, {"position", "2"}})).status()),
            "position");
}

TEST(RequestsTest, TheOptionsOfAnImport) {
  const auto options = ToImportOptions(WithQuery({{"id", "b"}, {"replace", "true"}}));
  EXPECT_EQ(options->id(), "b");
  EXPECT_TRUE(options->replace());
  EXPECT_FALSE(ToImportOptions(WithQuery({}))->replace());
  EXPECT_EQ(FieldOf(ToImportOptions(WithQuery({{"id", "-b"}})).status()), "id");
  EXPECT_EQ(FieldOf(ToImportOptions(WithQuery({{"replace", "1"}})).status()), "replace");
}

TEST(RequestsTest, AParameterThatThereIsNotIsNamed) {
  const HttpRequest http = WithQuery({{"pagesize", "1"}});
  EXPECT_EQ(FieldOf(ToListSessions(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToGetSession(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToCreateSession(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToExportSession(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToImportOptions(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToGetModel(http).status()), "pagesize");
  EXPECT_EQ(FieldOf(ToGetSession(WithQuery({{"labels.a", "b"}})).status()), "labels.a");
}

}  // namespace
}  // namespace fermata
