#include "engine/model/layout.h"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

using How = StoredName::How;
using testing::ElementsAre;
using testing::HasSubstr;

// Tensors that hold 0, 1, 2, …
class Counting : public WeightSource {
 public:
  explicit Counting(std::map<std::string, std::vector<int64_t>, std::less<>> shapes)
      : shapes_(std::move(shapes)) {}

  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    const auto it = shapes_.find(name);
    if (it == shapes_.end()) return absl::NotFoundError(std::string(name) + " is missing");
    if (!std::ranges::equal(it->second, shape)) {
      return absl::InvalidArgumentError(std::string(name) + " has another shape");
    }
    return ReadReshaped(name, Size(it->second));
  }
  absl::StatusOr<AlignedBuffer<float>> ReadReshaped(std::string_view name, int64_t count) override {
    const auto it = shapes_.find(name);
    if (it == shapes_.end()) return absl::NotFoundError(std::string(name) + " is missing");
    if (Size(it->second) != count) {
      return absl::InvalidArgumentError(std::string(name) + " has another size");
    }
    AlignedBuffer<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
  }
  bool Has(std::string_view name) const override { return shapes_.contains(name); }

 private:
  static int64_t Size(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  std::map<std::string, std::vector<int64_t>, std::less<>> shapes_;
};

constexpr StoredName kNames[] = {
    {"layers.*.as_is", "blocks.*.same"},
    {"layers.*.flat", "blocks.*.wide", How::kReshaped},
    {"layers.*.turned", "blocks.*.other_way", How::kTransposed},
    {"layers.*.second", "blocks.*.stack", How::kAsIs, 1, 3},
    {"layers.*.second_turned", "blocks.*.stack", How::kTransposed, 1, 3},
    {.canonical = "layers.*.halved",
     .stored = "blocks.*.same",
     .value = [](float x) { return x / 2; }},
    {"layers.0.first_only", "special"},
    {"head", "output"},
    {"layers.*.either", "blocks.*.older"},
    {"layers.*.either", "blocks.*.same"},
    {"layers.*.columns", "blocks.*.wide_stack", How::kAsIs, 1, 3, true},
    {"layers.*.columns_turned", "blocks.*.wide_stack", How::kTransposed, 1, 3, true},
};

class LayoutTest : public testing::Test {
 protected:
  std::vector<float> Values(std::string_view name, std::vector<int64_t> shape) {
    const auto values = weights_.Read(name, shape);
    EXPECT_TRUE(values.ok()) << name << ": " << values.status();
    return values.ok() ? std::vector<float>(values->begin(), values->end()) : std::vector<float>();
  }
  std::string Error(std::string_view name, std::vector<int64_t> shape) {
    return std::string(weights_.Read(name, shape).status().message());
  }

  Counting stored_{{{"blocks.0.same", {4}},
                    {"blocks.17.same", {4}},
                    {"blocks.0.wide", {1, 1, 6}},
                    {"blocks.0.other_way", {3, 2}},
                    {"blocks.0.stack", {3, 2, 2}},
                    {"blocks.0.wide_stack", {2, 6}},
                    {"blocks.17.older", {4}},
                    {"special", {1}},
                    {"output", {2}},
                    {"canonical", {2}}}};
  LayoutWeights weights_{stored_, kNames};
};

TEST_F(LayoutTest, RowsSayWhereAndHowATensorIsStored) {
  EXPECT_THAT(Values("layers.0.as_is", {4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Values("layers.17.as_is", {4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Values("layers.0.flat", {2, 3}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Values("layers.0.turned", {2, 3}), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(Values("layers.0.second", {2, 2}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Values("layers.0.second_turned", {2, 2}), ElementsAre(4, 6, 5, 7));
  EXPECT_THAT(Values("layers.0.halved", {4}), ElementsAre(0, 0.5, 1, 1.5));
  EXPECT_THAT(Values("layers.0.first_only", {1}), ElementsAre(0));
  EXPECT_THAT(Values("head", {2}), ElementsAre(0, 1));
}

// [[0, 1, 2, 3, 4, 5], [6, …]] is three parts of [[2, 3], [8, 9]] side by side.
TEST_F(LayoutTest, PartsMayLieAlongTheLastAxis) {
  EXPECT_THAT(Values("layers.0.columns", {2, 2}), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(Values("layers.0.columns_turned", {2, 2}), ElementsAre(2, 8, 3, 9));
}

TEST_F(LayoutTest, OfSeveralRowsTheFirstCountsWhoseTensorIsStored) {
  EXPECT_TRUE(weights_.Has("layers.0.either"));
  EXPECT_THAT(Values("layers.0.either", {4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Error("layers.17.either", {5}), HasSubstr("blocks.17.older has another shape"));
  EXPECT_FALSE(weights_.Has("layers.1.either"));
  EXPECT_THAT(Error("layers.1.either", {4}), HasSubstr("blocks.1.same is missing"));
}

TEST_F(LayoutTest, OtherNamesAreCanonical) {
  EXPECT_THAT(Values("canonical", {2}), ElementsAre(0, 1));
  EXPECT_TRUE(weights_.Has("canonical"));
  EXPECT_FALSE(weights_.Has("blocks.9.same"));
}

TEST_F(LayoutTest, HasLooksForTheStoredName) {
  EXPECT_TRUE(weights_.Has("layers.17.as_is"));
  EXPECT_TRUE(weights_.Has("layers.0.second"));
  EXPECT_FALSE(weights_.Has("layers.17.second"));
  EXPECT_FALSE(weights_.Has("layers.1.as_is"));
}

TEST_F(LayoutTest, ErrorsSpeakOfTheStoredTensor) {
  EXPECT_THAT(Error("layers.3.flat", {6}), HasSubstr("blocks.3.wide is missing"));
  EXPECT_THAT(Error("layers.0.as_is", {5}), HasSubstr("blocks.0.same has another shape"));
  EXPECT_THAT(Error("layers.0.flat", {7}), HasSubstr("blocks.0.wide has another size"));
  EXPECT_THAT(Error("layers.0.second", {3, 2}), HasSubstr("blocks.0.stack has another size"));
}

TEST(LayoutPatternTest, AStarStandsForOneNumber) {
  EXPECT_TRUE(FitsPattern("blocks.12.att.v0", "blocks.*.att.v0"));
  EXPECT_TRUE(FitsPattern("lm_head.weight", "lm_head.weight"));
  EXPECT_FALSE(FitsPattern("blocks.12.att.v1", "blocks.*.att.v0"));
  EXPECT_FALSE(FitsPattern("blocks.x.att.v0", "blocks.*.att.v0"));
  EXPECT_TRUE(FitsPattern("blocks.0.att.v0", "blocks.0.att.v0"));
  EXPECT_FALSE(FitsPattern("blocks.1.att.v0", "blocks.0.att.v0"));
}

TEST(LayoutTableTest, NamesAndRowsMakeSense) {
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(std::string(layout.name));
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const StoredName& row : layout.names) {
      EXPECT_TRUE(seen.emplace(row.canonical, row.stored).second)
          << row.canonical << " has two rows for " << row.stored;
      EXPECT_GE(row.row, 0) << row.canonical;
      EXPECT_LT(row.row, row.rows) << row.canonical;
      EXPECT_EQ(row.canonical.find('*') == std::string_view::npos,
                row.stored.find('*') == std::string_view::npos)
          << row.canonical;
    }
  }
}

}  // namespace
}  // namespace fermata
