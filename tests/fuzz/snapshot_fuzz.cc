// Snapshots come from clients (imports) and from disks: whatever is accepted is what the encoder would
// write.

#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "engine/session/snapshot.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string HeadOf(const fermata::SnapshotName& name, const fermata::SessionRecord& record,
                   std::span<const std::byte> state) {
  return fermata::EncodeSnapshotHead(
      name, record,
      {.bytes = state.size(), .checksum = fermata::StateChecksum(state), .elsewhere = false});
}

// Makes the checksums right, as most inputs would not come past them otherwise.
void Reseal(std::string& bytes) {
  const auto seal = [&bytes](size_t begin, size_t count, size_t at) {
    const uint64_t sum =
        fermata::StateChecksum(std::as_bytes(std::span(bytes).subspan(begin, count)));
    std::memcpy(bytes.data() + at, &sum, sizeof(sum));
  };
  if (bytes.size() < 64) return;
  uint32_t record_bytes;
  std::memcpy(&record_bytes, bytes.data() + 12, sizeof(record_bytes));
  if (record_bytes <= bytes.size() - 64) seal(64, record_bytes, 48);
  seal(0, 56, 56);
}

void Run(std::string_view bytes) {
  const auto whole = fermata::DecodeSnapshot(bytes);
  if (whole.ok() && HeadOf(whole->name, whole->record, whole->state) !=
                        bytes.substr(0, bytes.size() - whole->state.size())) {
    std::abort();
  }
  const auto head = fermata::DecodeSnapshotHead(bytes);
  if (head.ok() && fermata::EncodeSnapshotHead(head->name, head->record, head->state) !=
                       bytes.substr(0, head->size)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Run(bytes);
  Reseal(bytes);
  Run(bytes);
  return 0;
}

std::vector<std::string> fermata::FuzzSeeds() {
  SessionRecord record;
  record.id = "session";
  record.model_fingerprint = "0123456789abcdef";
  record.position = 1000;
  record.pending_token = 7;
  record.sampler_memory = std::string(16, '\1');
  record.labels = {{"user", "ann"}, {"topic", "numbers"}};
  record.parent_id = "parent";
  record.parent_position = 10;
  record.max_checkpoints = 2;
  const std::vector<std::byte> state(100, std::byte{3});
  const std::string text(reinterpret_cast<const char*>(state.data()), state.size());
  std::vector<std::string> seeds = {EncodeExport(record, state)};
  record.checkpoints = {
      {.snapshot = {.key = 3, .state = 2}, .position = 20, .turns = 1, .time = {}},
      {.snapshot = {.key = 5, .state = 5}, .position = 90, .turns = 2, .time = {}}};
  seeds.push_back(HeadOf({.key = 9, .state = 8}, record, state) + text);
  seeds.push_back(
      EncodeSnapshotHead({.key = 9, .state = 5}, record,
                         {.bytes = 100, .checksum = StateChecksum(state), .elsewhere = true}));
  record = {};
  record.id = "x";
  seeds.push_back(EncodeExport(record, {}));
  return seeds;
}
