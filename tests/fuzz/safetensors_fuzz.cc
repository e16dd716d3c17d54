#include "engine/formats/safetensors.h"
#include "tests/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = fermata::ParseSafetensors(std::as_bytes(std::span(data, size)), "input");
  if (tensors.ok()) fermata::ReadAll(*tensors);
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  return {FileBytes({F32Tensor("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}),
                     Bf16Tensor("b.weight", {4}, {1, 2, 3, 4}), F32Tensor("c", {}, {7})}),
          FileBytes("{}", "")};
}
