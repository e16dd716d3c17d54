#ifndef FERMATA_SERVER_CALLS_SNAPSHOT_CALLS_H_
#define FERMATA_SERVER_CALLS_SNAPSHOT_CALLS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/session/session_store.h"
#include "fermata/v1/session.pb.h"
#include "server/calls/front.h"
#include "server/calls/runtime.h"
#include "server/calls/snapshot_parts.h"
#include "server/calls/transfers.h"

namespace fermata {

// Exports and imports, of which there are so many at once as Front::transfers has places: each has one
// from Begin until it is destroyed. Used by one thread at a time; `front` must outlive them.

class SnapshotExport {
 public:
  explicit SnapshotExport(const Front& front) : front_(front) {}

  // Checks `request`, and takes a place.
  absl::Status Begin(const v1::ExportSessionRequest& request);
  // Brings the snapshot into memory. May wait for a disk: for a thread of Front::sessions.
  absl::Status Fetch(size_t part_bytes);
  // What is to be sent, after Fetch.
  SnapshotParts& parts() { return *parts_; }

 private:
  const Front& front_;
  Runtime* runtime_ = nullptr;
  std::string id_;
  SessionStore::Place from_;
  std::optional<TransferPlaces::Place> place_;
  std::optional<SnapshotParts> parts_;
};

class SnapshotImport {
 public:
  explicit SnapshotImport(const Front& front) : front_(front) {}

  // Takes a place.
  absl::Status Begin();
  // Once, and before the snapshot.
  absl::Status SetOptions(const v1::ImportOptions& options);
  // The snapshot, in parts that say its size and checksum, or as mere bytes.
  absl::Status Add(const v1::SnapshotPart& part);
  absl::Status Add(std::string_view bytes);
  // Makes the session, when all has come. May wait for a disk: for a thread of Front::sessions.
  absl::Status Commit(v1::Session* session);

 private:
  const Front& front_;
  Runtime* runtime_ = nullptr;
  std::optional<TransferPlaces::Place> place_;
  std::optional<SessionStore::ImportOptions> options_;
  std::optional<SnapshotAssembly> assembly_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_SNAPSHOT_CALLS_H_
