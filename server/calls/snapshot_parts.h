#ifndef FERMATA_SERVER_CALLS_SNAPSHOT_PARTS_H_
#define FERMATA_SERVER_CALLS_SNAPSHOT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/session/snapshot.h"
#include "fermata/v1/session.pb.h"

struct XXH3_state_s;

namespace fermata {

// XXH3-64 of bytes that come in pieces.
class RunningChecksum {
 public:
  RunningChecksum();
  void Add(const void* data, size_t size);
  uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// How much of a snapshot one message carries: about 1 MiB, and less where messages must be smaller.
size_t PartBytes(size_t max_message_bytes);

// A snapshot that is sent in parts.
class SnapshotParts {
 public:
  // `head` and `state` follow one another; together they are at least one byte.
  SnapshotParts(std::string head, std::vector<std::byte> state, size_t part_bytes);

  size_t total() const { return head_.size() + state_.size(); }
  // Of the whole, before any of it is sent.
  uint64_t Checksum() const;
  bool done() const { return sent_ == total(); }
  // Fills the next part; not when done.
  void Next(v1::SnapshotPart* part);

 private:
  const std::string head_;
  const std::vector<std::byte> state_;
  const size_t part_bytes_;
  size_t sent_ = 0;
  RunningChecksum checksum_;
};

// A snapshot that comes in parts, which is never larger than was allowed.
class SnapshotAssembly {
 public:
  struct Options {
    std::string model_fingerprint;  // Of snapshots that fit.
    size_t state_bytes = 0;         // Of those.
  };
  explicit SnapshotAssembly(Options options) : options_(std::move(options)) {}

  // Takes the next part. INVALID_ARGUMENT with reason INVALID_FIELD for parts that make no sense, or
  // SNAPSHOT_DAMAGED for ones that their checksum, or a total that no snapshot of the model has,
  // belies; FAILED_PRECONDITION with reason SNAPSHOT_MODEL, and metadata {"model_fingerprint",
  // "expected_model_fingerprint"}, when such a total is that of another model's.
  absl::Status Add(const v1::SnapshotPart& part);
  // The same for bytes that come without a total and a checksum: what was altered shows by the
  // snapshot's own.
  absl::Status Add(std::string_view bytes);
  // The whole, once all of it has come; otherwise INVALID_ARGUMENT.
  absl::StatusOr<std::string> Take();

 private:
  absl::Status Begin(const v1::SnapshotPart& part);
  // What a snapshot of `total` bytes, which begins with `head`, is refused with; OK where one of the
  // model can have so many.
  absl::Status CheckTotal(size_t total, std::string_view head) const;
  size_t limit() const { return options_.state_bytes + kMaxSnapshotHeadBytes; }

  const Options options_;
  size_t total_ = 0;  // 0: none was told.
  std::string bytes_;
  RunningChecksum checksum_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_SNAPSHOT_PARTS_H_
