#include "server/config/command_line.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "server/config/byte_size.h"

ABSL_FLAG(int, test_count, 3, "How many there are.");
ABSL_FLAG(absl::Duration, test_wait, absl::Seconds(5), "How long to wait.");
ABSL_FLAG(fermata::ByteSize, test_size, fermata::ByteSize{2 << 20}, "How large it is.");
ABSL_FLAG(int, test_hidden, 0, "Not in any group.");

namespace fermata {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kNames[] = {"test_count", "test_wait", "test_size"};
constexpr FlagGroup kGroups[] = {{"Things", kNames}};

absl::StatusOr<CommandLineWish> Parse(std::vector<std::string> arguments) {
  return ParseCommandLine(arguments, kGroups);
}

std::string Message(const absl::StatusOr<CommandLineWish>& result) {
  return std::string(result.status().message());
}

class CommandLineTest : public testing::Test {
 private:
  absl::FlagSaver saver_;
};

TEST_F(CommandLineTest, SetsFlagsInBothForms) {
  EXPECT_EQ(*Parse({"--test_count=7", "--test_wait", "1m30s", "--test_size=3GiB"}),
            CommandLineWish::kRun);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 7);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Seconds(90));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_size).bytes, int64_t{3} << 30);
}

TEST_F(CommandLineTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Message(Parse({"--test_cuont=7"})), HasSubstr("--test_cuont: there is no such flag"));
  // A flag of another library in the same process.
  EXPECT_THAT(Message(Parse({"--test_hidden=7"})), HasSubstr("--test_hidden: there is no such"));
  EXPECT_THAT(Message(Parse({"serve"})), HasSubstr("'serve' is not a flag"));
  EXPECT_THAT(Message(Parse({"--"})), HasSubstr("'--' is not a flag"));
  EXPECT_THAT(Message(Parse({"--test_count"})), HasSubstr("--test_count: has no value"));
  EXPECT_THAT(Message(Parse({"--test_count=many"})),
              "--test_count: expected a whole number, got 'many'");
  EXPECT_THAT(
      Message(Parse({"--test_size=1.5GiB"})),
      AllOf(HasSubstr("--test_size: expected a whole number of bytes"), Not(HasSubstr(";"))));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 3);
}

TEST_F(CommandLineTest, TellsWishes) {
  EXPECT_EQ(*Parse({"--help"}), CommandLineWish::kHelp);
  EXPECT_EQ(*Parse({"--version"}), CommandLineWish::kVersion);
}

TEST_F(CommandLineTest, ReadsFlagFilesAndNamesTheLine) {
  const std::string path = testing::TempDir() + "/flags";
  std::ofstream(path) << "# a comment\n\n  --test_count=11  \n--test_wait=2s\n";
  EXPECT_EQ(*Parse({"--flagfile=" + path, "--test_wait=4s"}), CommandLineWish::kRun);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 11);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Seconds(4));  // The last one counts.

  std::ofstream(path) << "--test_count=1\n--test_wait=soon\n";
  EXPECT_THAT(Message(Parse({"--flagfile", path})), HasSubstr(path + " line 2: --test_wait: "));
  std::ofstream(path) << "--test_count 1\n";
  EXPECT_THAT(Message(Parse({"--flagfile", path})), HasSubstr(path + " line 1: "));
  EXPECT_THAT(Message(Parse({"--flagfile=/no/such/file"})),
              AllOf(HasSubstr("--flagfile: "), HasSubstr("/no/such/file")));
  std::remove(path.c_str());
}

TEST_F(CommandLineTest, HelpTellsNameDefaultAndMeaning) {
  const std::string help = FlagsHelp(kGroups);
  EXPECT_THAT(help, HasSubstr("Things:"));
  EXPECT_THAT(help, HasSubstr("--test_wait=5s\n      How long to wait."));
  EXPECT_THAT(help, HasSubstr("--test_size=2MiB\n"));
}

TEST(ByteSizeTest, ParsesWholeNumbersWithUnits) {
  const auto parse = [](absl::string_view text) {
    ByteSize size{-1};
    std::string error;
    return AbslParseFlag(text, &size, &error) ? size.bytes : -1;
  };
  EXPECT_EQ(parse("0"), 0);
  EXPECT_EQ(parse("123"), 123);
  EXPECT_EQ(parse("1KiB"), 1024);
  EXPECT_EQ(parse("512MiB"), 536870912);
  EXPECT_EQ(parse("2TiB"), 2199023255552);
  for (const char* bad : {"", "GiB", "-1", "+1", "1.5", "1 GiB", "1GB", "1gib", "0x10", "1e3",
                          "9223372036854775808", "8388608TiB", "1KiBKiB"}) {
    EXPECT_EQ(parse(bad), -1) << bad;
  }
}

TEST(ByteSizeTest, UnparsesToWhatParsesToTheSame) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1000}, int64_t{1024}, int64_t{1} << 30,
                              (int64_t{1} << 30) + 1, int64_t{5} << 40}) {
    ByteSize back;
    std::string error;
    ASSERT_TRUE(AbslParseFlag(AbslUnparseFlag(ByteSize{bytes}), &back, &error)) << error;
    EXPECT_EQ(back.bytes, bytes);
  }
  EXPECT_EQ(AbslUnparseFlag(ByteSize{1 << 30}), "1GiB");
}

}  // namespace
}  // namespace fermata
