#include "server/http/router.h"

#include "gmock/gmock.h"

namespace fermata {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const auto& [method, path] :
         {std::pair{"GET", "/s"}, std::pair{"POST", "/s"}, std::pair{"GET", "/s/{id}"},
          std::pair{"GET", "/s/new"}, std::pair{"POST", "/s/import"},
          std::pair{"GET", "/s/{id}/c/{turn}"}}) {
      router_.Add(method, path, [](const HttpRequest&) { return HttpResponse{.headers = {}}; });
    }
  }

  // The path of the route that was found, or the status that answers.
  std::string Find(const std::string& method, const std::string& path) {
    request_ = {.method = method, .path = path, .headers = {}};
    const HttpRouter::Found found = router_.Find(request_);
    if (found.route != nullptr) return found.route->method + " " + found.route->path;
    headers_ = found.answer.headers;
    return std::to_string(found.answer.status);
  }

  HttpRouter router_;
  HttpRequest request_;
  HttpHeaders headers_;
};

TEST_F(RouterTest, FindsByMethodAndPath) {
  EXPECT_EQ(Find("GET", "/s"), "GET /s");
  EXPECT_EQ(Find("POST", "/s"), "POST /s");
  EXPECT_EQ(Find("HEAD", "/s"), "GET /s");
  EXPECT_EQ(Find("GET", "/s/a%2Fb"), "GET /s/{id}");
  EXPECT_THAT(request_.parameters, ElementsAre(Pair("id", "a/b")));
  EXPECT_EQ(Find("GET", "/s/a/c/3"), "GET /s/{id}/c/{turn}");
  EXPECT_THAT(request_.parameters, ElementsAre(Pair("id", "a"), Pair("turn", "3")));
}

TEST_F(RouterTest, FixedSegmentsGoFirst) {
  EXPECT_EQ(Find("POST", "/s/import"), "POST /s/import");
  EXPECT_EQ(Find("GET", "/s/new"), "GET /s/new");
  // Of the routes of the method: what is called so can be found.
  EXPECT_EQ(Find("GET", "/s/import"), "GET /s/{id}");
  EXPECT_EQ(Find("DELETE", "/s/import"), "405");
  EXPECT_THAT(headers_, Contains(Pair("Allow", "GET, HEAD, POST")));
}

TEST_F(RouterTest, SaysWhatThereIsNot) {
  EXPECT_EQ(Find("GET", "/"), "404");
  EXPECT_EQ(Find("GET", "/s/"), "404");
  EXPECT_EQ(Find("GET", "/s/a/c"), "404");
  EXPECT_EQ(Find("DELETE", "/s"), "405");
  EXPECT_THAT(headers_, Contains(Pair("Allow", "GET, HEAD, POST")));
  EXPECT_EQ(Find("GET", "/s/%ff"), "400");
}

}  // namespace
}  // namespace fermata
