#ifndef FERMATA_TESTS_FUZZ_FUZZ_H_
#define FERMATA_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// What each fuzz target defines, one a file. libFuzzer calls the first with whatever it comes up
// with (configure with clang and FERMATA_FUZZ); elsewhere driver.cc does, as a test.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fermata {

// Inputs that are right, for the driver to start from.
std::vector<std::string> FuzzSeeds();

}  // namespace fermata

#endif  // FERMATA_TESTS_FUZZ_FUZZ_H_
