#include "engine/formats/torch_file.h"
#include "engine/formats/torch_pickle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"
#include "tests/torch_file.h"

// The input as a file, and as the pickle in one: few changes to a file leave its archive whole.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = fermata::ParseTorchFile(bytes, "input");
  if (tensors.ok()) fermata::ReadAll(*tensors);
  fermata::ReadTorchPickle(bytes, "input").status().IgnoreError();
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  const std::vector<TorchTensor> tensors = {
      {.name = "a", .key = "0", .storage_size = 6, .shape = {2, 3}, .strides = {3, 1}},
      {.name = "b",
       .storage = "HalfStorage",
       .key = "1",
       .storage_size = 70'000,
       .offset = 69'996,
       .shape = {4},
       .strides = {1},
       .parameter = true}};
  std::vector<std::string> seeds;
  for (const bool ordered : {false, true}) {
    const std::string pickle = PickleBytes(tensors, ordered);
    seeds.push_back(pickle);
    seeds.push_back(
        TorchBytes(PickleBytes({tensors[0]}, ordered), {{"0", std::string(24, '\0')}}, ordered));
  }
  return seeds;
}
