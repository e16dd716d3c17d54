// How matrices come to be held as they are: the rule, the file, and what a source says.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/matmul.h"
#include "engine/kernels/matmul_backend.h"
#include "engine/kernels/matmul_dispatch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/kernels/stored_blocks.h"
#include "tests/random_weights.h"

namespace fermata {
namespace {

TEST(HeldWeightTypeTest, NarrowSmallAndUnevenMatricesStayWide) {
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 768, 768), WeightType::kInt8);
  EXPECT_EQ(HeldWeightType(WeightType::kInt4, 192, 512), WeightType::kInt4);
  EXPECT_EQ(HeldWeightType(WeightType::kBf16, 65536, 768), WeightType::kBf16);
  EXPECT_EQ(HeldWeightType(WeightType::kF32, 768, 768), WeightType::kF32);
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 64, 768), WeightType::kF32);   // A factor of rank 64,
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 768, 128), WeightType::kF32);  // and one of 128.
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 12, 4096), WeightType::kF32);  // One β for each head.
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 160, 160), WeightType::kF32);
  EXPECT_EQ(HeldWeightType(WeightType::kInt8, 768, 770), WeightType::kF32);
}

TEST(AutoWeightTypeTest, FollowsTheFile) {
  const WeightType half = HasBf16Products() ? WeightType::kBf16 : WeightType::kF32;
  EXPECT_EQ(AutoWeightType("F32"), WeightType::kF32);
  EXPECT_EQ(AutoWeightType("BF16"), half);
  EXPECT_EQ(AutoWeightType("F16"), half);
  EXPECT_EQ(AutoWeightType("Q6_K"), WeightType::kInt8);
  EXPECT_EQ(AutoWeightType("Q8_0"), WeightType::kInt8);
}

// One matrix, of which it says how it is to be held.
class TypedWeights : public WeightSource {
 public:
  absl::StatusOr<AlignedBuffer<float>> Read(std::string_view,
                                            std::span<const int64_t> shape) override {
    ++reads;
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    const auto values = RandomNormals(15, count);
    AlignedBuffer<float> buffer(values.size());
    std::ranges::copy(values, buffer.begin());
    return buffer;
  }
  bool Has(std::string_view) const override { return true; }
  WeightType matrix_type(std::string_view name) const override {
    return name == "layer.weight" ? type : WeightType::kF32;
  }
  absl::StatusOr<std::optional<WeightBlocks>> ReadBlocks(std::string_view name,
                                                         std::span<const int64_t> shape) override {
    EXPECT_EQ(name, "layer.weight");
    if (!stored.has_value()) return std::nullopt;
    EXPECT_EQ(shape[0] * shape[1], static_cast<int64_t>(stored->quants.size()));
    return stored->blocks();
  }

  WeightType type = WeightType::kF32;
  std::optional<StoredBlocks> stored;
  int reads = 0;
};

TEST(ReadMatrixTest, HoldsWhatTheSourceSays) {
  TypedWeights source;
  const WeightScope scope(source, "layer.");
  int64_t last_bytes = int64_t{1} << 40;
  for (const auto& [type, name] : kWeightTypeNames) {
    source.type = type;
    const auto matrix = ReadMatrix(scope, "weight", 256, 256);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(matrix->type(), type) << name;
    EXPECT_LT(matrix->bytes(), last_bytes * 3 / 5) << name;
    last_bytes = matrix->bytes();
    EXPECT_EQ(ReadMatrix(scope, "weight", 256, 64)->type(), WeightType::kF32) << name;
  }
}

TEST(ReadMatrixTest, PrefersBlocks) {
  TypedWeights source;
  source.stored = RandomBlocks(BlockType::kQ4_0, 256, 256, 16);
  const WeightScope scope(source, "layer.");
  const auto matrix = ReadMatrix(scope, "weight", 256, 256);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->type(), WeightType::kInt4);
  EXPECT_EQ(source.reads, 0);
  EXPECT_EQ(ReadMatrix(scope, "weight", 256, 64)->type(), WeightType::kF32);
  EXPECT_EQ(source.reads, 1);
  source.stored->bytes[1] = std::byte{0x7c};
  source.stored->bytes[0] = std::byte{0x01};  // NaN.
  EXPECT_THAT(std::string(ReadMatrix(scope, "weight", 256, 256).status().message()),
              testing::HasSubstr("layer.weight"));
}

// Two matrices one below the other, with a narrow one between them.
TEST(ReadMatricesTest, CutsNumbersAndBlocksAlike) {
  constexpr int64_t kOuts[] = {160, 12, 256};
  constexpr int64_t kTotal = 160 + 12 + 256;
  constexpr int64_t kIn = 256;
  TypedWeights source;
  source.type = WeightType::kInt8;
  const auto x = RandomNormals(17, 3 * kIn);
  for (const bool in_blocks : {false, true}) {
    SCOPED_TRACE(in_blocks);
    if (in_blocks) source.stored = RandomBlocks(BlockType::kQ8_0, kTotal, kIn, 18);
    const auto numbers = *source.Read("layer.weight", std::vector<int64_t>{kTotal, kIn});
    const auto matrices = ReadMatrices(WeightScope(source, "layer."), "weight", kOuts, kIn);
    ASSERT_TRUE(matrices.ok()) << matrices.status();
    ASSERT_EQ(matrices->size(), 3);
    const std::unique_ptr<MatmulBackend> whole =
        in_blocks ? PackBlocks(source.stored->blocks(), kTotal, kIn)
                  : PackInt8(numbers.data(), kTotal, kIn, kAllRows);
    const std::unique_ptr<MatmulBackend> wide = PackPanels(numbers.data(), kTotal, kIn);
    int64_t begin = 0;
    for (int part = 0; part < 3; ++part) {
      const PackedMatrix& matrix = (*matrices)[part];
      EXPECT_EQ(matrix.type(), part == 1 ? WeightType::kF32 : WeightType::kInt8);
      ASSERT_EQ(matrix.out_features(), kOuts[part]);
      std::vector<float> y(3 * kOuts[part]);
      matrix.Multiply(x.data(), 3, y.data());
      std::vector<float> expected(3 * kTotal);
      (part == 1 ? wide : whole)->Multiply(x.data(), 3, expected.data());
      for (int64_t i = 0; i < 3 * kOuts[part]; ++i) {
        ASSERT_NEAR(y[i], expected[i / kOuts[part] * kTotal + begin + i % kOuts[part]], 2e-5);
      }
      begin += kOuts[part];
    }
  }
}

}  // namespace
}  // namespace fermata
