#include "engine/layers/part_clock.h"

#include <cassert>

#include "absl/strings/str_cat.h"

namespace fermata {
namespace {

thread_local PartClock* current_clock = nullptr;

// "2 x 64 x 768 f32": how many, and their shape.
std::string NameOf(const PackedMatrix& matrix, int64_t count) {
  return absl::StrCat(count == 1 ? "" : absl::StrCat(count, " x "), matrix.out_features(), " x ",
                      matrix.in_features(), " ", std::string(WeightTypeName(matrix.type())));
}

bool SameShape(const PackedMatrix& a, const PackedMatrix& b) {
  return a.out_features() == b.out_features() && a.in_features() == b.in_features() &&
         a.type() == b.type();
}

}  // namespace

PartClock::PartClock() {
  assert(current_clock == nullptr);
  current_clock = this;
}

PartClock::~PartClock() { current_clock = nullptr; }

PartClock* PartClock::Current() { return current_clock; }

void PartClock::Time(const std::string& name, const Part& cost, absl::FunctionRef<void()> work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  Part& part = parts_[name];
  part.time += std::chrono::steady_clock::now() - begin;
  part.bytes += cost.bytes;
  part.multiply_adds += cost.multiply_adds;
}

void MultiplyTimed(std::span<const Product> products, int64_t rows) {
  PartClock* clock = PartClock::Current();
  if (clock == nullptr) return MultiplyAll(products, rows);
  std::string name;
  PartClock::Part cost;
  for (size_t i = 0; i < products.size();) {
    const PackedMatrix& matrix = *products[i].matrix;
    int64_t count = 0;
    for (; i < products.size() && SameShape(matrix, *products[i].matrix); ++i, ++count) {
      cost.bytes += products[i].matrix->bytes();
      cost.multiply_adds += rows * matrix.out_features() * matrix.in_features();
    }
    absl::StrAppend(&name, name.empty() ? "" : ", ", NameOf(matrix, count));
  }
  clock->Time(name, cost, [&] { MultiplyAll(products, rows); });
}

}  // namespace fermata
