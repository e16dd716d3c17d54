#include <cassert>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/sampling/sampler.h"

namespace fermata {

void SamplerMemory::Append(int32_t token) {
  assert(token >= 0);
  tokens_.push_back(token);
  if (tokens_.size() > kMaxPenaltyWindow) tokens_.pop_front();
}

std::string SamplerMemory::Serialize() const {
  std::string bytes;
  bytes.reserve(4 * tokens_.size());
  for (const int32_t token : tokens_) {
    const auto word = static_cast<uint32_t>(token);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

absl::StatusOr<SamplerMemory> SamplerMemory::Parse(std::string_view bytes) {
  if (bytes.size() % 4 != 0 || bytes.size() / 4 > kMaxPenaltyWindow) {
    return absl::DataLossError("sampler memory: " + std::to_string(bytes.size()) +
                               " bytes are not a list of at most " +
                               std::to_string(kMaxPenaltyWindow) + " tokens");
  }
  SamplerMemory memory;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
    const auto token = static_cast<int32_t>(word);
    if (token < 0) return absl::DataLossError("sampler memory: a token id is negative");
    memory.tokens_.push_back(token);
  }
  return memory;
}

}  // namespace fermata
