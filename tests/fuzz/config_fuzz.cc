#include "engine/base/config_reader.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto config = fermata::ConfigReader::Parse({reinterpret_cast<const char*>(data), size}, "input");
  if (!config.ok()) return 0;
  for (const std::string& field : config->Unread()) {
    config->Int(field, -1'000'000, 1'000'000).status().IgnoreError();
    config->Number(field, -1e9, 1e9).status().IgnoreError();
    config->Bool(field).status().IgnoreError();
    config->String(field).status().IgnoreError();
    config->Numbers(field, -1e9, 1e9).status().IgnoreError();
    config->Ints(field, INT64_MIN, INT64_MAX).status().IgnoreError();
    config->Object(field).status().IgnoreError();
  }
  config->Canonical();
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  return {R"({"model_type": "rwkv7", "hidden_size": 64, "norm_eps": 1e-05, "tie": false,
              "attn": {"layers": [1, 3], "num_heads": 4, "window_size": null},
              "time_step_limit": [0.0, Infinity], "bos_token_id": 1, "eos_token_id": [2, 3],
              "name": "é\u00e9\ud83d\ude00", "big": 18446744073709551615, "small": -1.5E+308})",
          "{}"};
}
