#include "tests/engine/kernels/targets.h"

#include "gtest/gtest.h"

namespace fermata {
namespace {

class TargetsOfClassOnly : public testing::Environment {
  void SetUp() override { HoldTargetsToClass(); }
};

[[maybe_unused]] auto* const held = testing::AddGlobalTestEnvironment(new TargetsOfClassOnly);

}  // namespace
}  // namespace fermata
