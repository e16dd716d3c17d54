#ifndef FERMATA_TESTS_E2E_SHARED_SERVER_H_
#define FERMATA_TESTS_E2E_SHARED_SERVER_H_

#include <memory>

#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"

namespace fermata::e2e {

// One server for all tests of a suite, which keep to sessions of their own.
class SharedServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(); }
  static void TearDownTestSuite() {
    EXPECT_TRUE(server_->running()) << server_->log();
    delete server_;
  }

  static ServerProcess& server() { return *server_; }
  client::Client& client() { return *client_; }

 private:
  static inline ServerProcess* server_ = nullptr;
  const std::unique_ptr<client::Client> client_ = server_->Connect();
};

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_SHARED_SERVER_H_
