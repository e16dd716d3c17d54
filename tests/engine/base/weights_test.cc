#include "engine/base/weights.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fermata {
namespace {

// Remembers what it was asked for.
class Recorder : public WeightSource {
 public:
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view name,
                                            std::span<const int64_t> shape) override {
    asked = name;
    asked_shape.assign(shape.begin(), shape.end());
    return AlignedBuffer<float>(1);
  }
  bool Has(std::string_view name) const override { return name == "model.layers.0.attn.bias"; }
  WeightType matrix_type(std::string_view name) const override {
    return name == "model.layers.0.attn.q_proj.weight" ? WeightType::kInt4 : WeightType::kBf16;
  }
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(std::string_view name,
                                                         std::span<const int64_t> shape) override {
    asked = name;
    asked_shape.assign(shape.begin(), shape.end());
    return WeightBlocks{BlockType::kQ4_0, {}};
  }

  std::string asked;
  std::vector<int64_t> asked_shape;
};

TEST(WeightScopeTest, NamesAreRelative) {
  Recorder source;
  const WeightScope attention = WeightScope(source, "model.").Child("layers.0").Child("attn");
  EXPECT_EQ(attention.prefix(), "model.layers.0.attn.");
  EXPECT_TRUE(attention.Has("bias"));
  EXPECT_FALSE(attention.Has("model.layers.0.attn.bias"));
  ASSERT_TRUE(attention.Child("q_proj").Read("weight", {4, 8}).ok());
  EXPECT_EQ(source.asked, "model.layers.0.attn.q_proj.weight");
  EXPECT_THAT(source.asked_shape, testing::ElementsAre(4, 8));
  EXPECT_EQ(attention.Child("q_proj").matrix_type("weight"), WeightType::kInt4);
  EXPECT_EQ(attention.Child("k_proj").matrix_type("weight"), WeightType::kBf16);
  ASSERT_EQ((*attention.ReadBlocks("k_proj", {8, 2}))->type, BlockType::kQ4_0);
  EXPECT_EQ(source.asked, "model.layers.0.attn.k_proj");
  EXPECT_THAT(source.asked_shape, testing::ElementsAre(8, 2));
}

TEST(WeightTypeTest, NamesGoBothWays) {
  const WeightType types[] = {WeightType::kF32, WeightType::kBf16, WeightType::kInt8,
                              WeightType::kInt4};
  const std::string_view names[] = {"f32", "bf16", "int8", "int4"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(WeightTypeName(types[i]), names[i]);
    EXPECT_EQ(WeightTypeFromName(names[i]), types[i]);
  }
  EXPECT_EQ(WeightTypeFromName("int16"), std::nullopt);
  EXPECT_EQ(WeightTypeFromName(""), std::nullopt);
}

}  // namespace
}  // namespace fermata
