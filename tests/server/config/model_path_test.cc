#include "server/config/model_path.h"

#include <cstdlib>
#include <filesystem>

#include "gmock/gmock.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelPathTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("FERMATA_MODEL_DIR");
    root_ = fs::canonical(testing::TempDir()) / "model_path_test";
    fs::create_directories(root_ / "tale");
    fs::remove(root_ / "link");
    fs::create_directory_symlink(root_ / "tale", root_ / "link");
  }
  void TearDown() override {
    unsetenv("FERMATA_MODEL_DIR");
    fs::remove_all(root_);
  }

  fs::path root_;
};

TEST_F(ModelPathTest, TheFlagComesFirstAndLinksAreResolved) {
  setenv("FERMATA_MODEL_DIR", "/no/such/place", 1);
  EXPECT_EQ(*ResolveModelDir(root_ / "link"), root_ / "tale");
}

TEST_F(ModelPathTest, ThenTheEnvironment) {
  setenv("FERMATA_MODEL_DIR", (root_ / "tale").c_str(), 1);
  EXPECT_EQ(*ResolveModelDir(""), root_ / "tale");
}

TEST_F(ModelPathTest, ThenWhatLiesBesideTheExecutable) {
  const fs::path binary = fs::read_symlink("/proc/self/exe");
  const fs::path beside = binary.parent_path().parent_path() / "share/fermata/models/default";
  const auto resolved = ResolveModelDir("");
  if (fs::is_directory(beside)) {
    EXPECT_EQ(*resolved, fs::canonical(beside));
  } else {
    EXPECT_THAT(std::string(resolved.status().message()), HasSubstr(beside.string()));
  }
}

TEST_F(ModelPathTest, SaysWhereItLooked) {
  const auto flag = ResolveModelDir(root_ / "gone");
  EXPECT_EQ(flag.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(flag.status().message()), HasSubstr("--model_dir: "));
  EXPECT_THAT(std::string(flag.status().message()), HasSubstr((root_ / "gone").string()));
  setenv("FERMATA_MODEL_DIR", "/no/such/place", 1);
  EXPECT_THAT(std::string(ResolveModelDir("").status().message()),
              HasSubstr("$FERMATA_MODEL_DIR: there is no directory or file /no/such/place"));
}

}  // namespace
}  // namespace fermata
