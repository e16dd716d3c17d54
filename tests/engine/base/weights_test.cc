#include "engine/base/weights.h"

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
}

}  // namespace
}  // namespace fermata
