#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/session/session_store.h"
#include "tests/engine/session/testing.h"

namespace fermata {
namespace {

class SessionListTest : public testing::Test {
 protected:
  void Create(const std::string& id, const std::map<std::string, std::string>& labels = {}) {
    SessionStore::CreateOptions options;
    options.id = id;
    options.labels = labels;
    ASSERT_TRUE(store_->Create(options).ok());
  }
  std::vector<std::string> Ids(const SessionStore::Page& page) {
    std::vector<std::string> ids;
    for (const SessionRecord& record : page.sessions) ids.push_back(record.id);
    return ids;
  }

  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ = [this] {
    SessionStoreOptions options = SmallStoreOptions(0, clock_);
    options.state_bytes = 64;
    options.memory_bytes = 64 << 20;
    return std::make_unique<SessionStore>(options);
  }();
};

TEST_F(SessionListTest, PagesInTheOrderOfIds) {
  for (const char* id : {"c", "a", "e", "B", "d"}) Create(id);
  SessionStore::ListOptions options;
  options.page_size = 2;
  std::vector<std::vector<std::string>> pages;
  do {
    const SessionStore::Page page = store_->List(options).value();
    pages.push_back(Ids(page));
    options.page_token = page.next_page_token;
  } while (!options.page_token.empty());
  EXPECT_EQ(pages, (std::vector<std::vector<std::string>>{{"B", "a"}, {"c", "d"}, {"e"}}));
}

TEST_F(SessionListTest, TheLastPageHasNoToken) {
  for (const char* id : {"a", "b", "c", "d"}) Create(id);
  SessionStore::ListOptions options;
  for (const int page_size : {4, 5, 1000, 1'000'000}) {
    options.page_size = page_size;
    EXPECT_EQ(store_->List(options)->next_page_token, "") << page_size;
  }
  options.page_size = 2;
  options.page_token = store_->List(options)->next_page_token;
  EXPECT_EQ(store_->List(options)->next_page_token, "");  // Full, and the last.
}

TEST_F(SessionListTest, FiltersByAllLabels) {
  for (int i = 0; i < 500; ++i) {
    Create("s" + std::to_string(1000 + i),
           {{"parity", i % 2 == 0 ? "even" : "odd"}, {"third", std::to_string(i % 3)}});
  }
  SessionStore::ListOptions options;
  options.page_size = 10;
  options.labels = {{"parity", "even"}, {"third", "1"}};
  std::vector<std::string> want;
  for (int i = 0; i < 500; ++i) {
    if (i % 2 == 0 && i % 3 == 1) want.push_back("s" + std::to_string(1000 + i));
  }
  std::vector<std::string> got;
  do {
    const SessionStore::Page page = store_->List(options).value();
    const std::vector<std::string> ids = Ids(page);
    got.insert(got.end(), ids.begin(), ids.end());
    if (!page.next_page_token.empty()) {
      EXPECT_EQ(ids.size(), 10u);
    }
    options.page_token = page.next_page_token;
  } while (!options.page_token.empty());
  EXPECT_EQ(got, want);
  options.labels = {{"parity", "1"}};
  EXPECT_TRUE(store_->List(options)->sessions.empty());
}

TEST_F(SessionListTest, TokensOfOthersAreRefused) {
  for (const char* id : {"a", "b", "c"}) Create(id, {{"k", "v"}});
  SessionStore::ListOptions options;
  options.page_size = 1;
  const std::string token = store_->List(options)->next_page_token;
  const auto field = [&] { return DetailsOf(store_->List(options).status()).metadata["field"]; };
  options.page_token = "a";
  EXPECT_EQ(field(), "page_token");
  options.page_token = token;
  options.labels = {{"k", "v"}};
  EXPECT_EQ(field(), "page_token");
  options = {};
  options.page_size = 0;
  EXPECT_EQ(field(), "page_size");
}

// A listing sees every session that was there all the time exactly once, whatever else happens
// between its pages, even to the session that a page ended with.
TEST_F(SessionListTest, AThousandWhileOthersComeAndGo) {
  const auto name = [](int i) { return "s" + std::to_string(10'000 + i); };
  for (int i = 0; i < 2000; i += 2) Create(name(i));
  SessionStore::ListOptions options;
  options.page_size = 7;
  std::map<std::string, int> seen;
  std::vector<std::string> deleted;
  int step = 1;
  std::string last;
  do {
    const SessionStore::Page page = store_->List(options).value();
    for (const SessionRecord& record : page.sessions) {
      EXPECT_LT(last, record.id);
      last = record.id;
      ++seen[record.id];
    }
    options.page_token = page.next_page_token;
    Create(name(step));  // Before and behind the listing in turn.
    Create(name(2000 - step));
    step += 2;
    if (step % 10 == 1 && !page.sessions.empty()) {
      ASSERT_TRUE(store_->Delete(last).ok());
      deleted.push_back(last);
    }
  } while (!options.page_token.empty());
  for (int i = 0; i < 2000; i += 2) EXPECT_EQ(seen[name(i)], 1) << name(i);
  for (const auto& [id, times] : seen) EXPECT_LE(times, 1) << id;
  EXPECT_GT(deleted.size(), 10u);
}

}  // namespace
}  // namespace fermata
