#ifndef FERMATA_SERVER_CALLS_TRANSFERS_H_
#define FERMATA_SERVER_CALLS_TRANSFERS_H_

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/error.h"

namespace fermata {

// Places for exports and imports, each of which holds a whole snapshot in memory for as long as its
// client takes. Thread-safe; must outlive the places it gives.
class TransferPlaces {
 public:
  explicit TransferPlaces(int places) : free_(places) {}

  // A place, given back when it is destroyed.
  class Place {
   public:
    explicit Place(TransferPlaces* places) : places_(places) {}
    Place(Place&& other) noexcept : places_(std::exchange(other.places_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(places_, other.places_);
      return *this;
    }
    ~Place() {
      if (places_ != nullptr) ++places_->free_;
    }

   private:
    TransferPlaces* places_;
  };

  // RESOURCE_EXHAUSTED with reason TRANSFERS_FULL and a time to retry when none is free.
  absl::StatusOr<Place> Take() {
    if (free_.fetch_sub(1) > 0) return Place(this);
    ++free_;
    return MakeError(absl::StatusCode::kResourceExhausted, "too many exports and imports run",
                     {.reason = "TRANSFERS_FULL", .metadata = {}, .retry_after = absl::Seconds(1)});
  }

 private:
  std::atomic<int> free_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_CALLS_TRANSFERS_H_
