#ifndef FERMATA_ENGINE_BASE_STATUS_H_
#define FERMATA_ENGINE_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the calling function with the status of `expr` when it is not OK.
#define FERMATA_RETURN_IF_ERROR(expr)                                                      \
  do {                                                                                     \
    if (absl::Status fermata_status = (expr); !fermata_status.ok()) return fermata_status; \
  } while (false)

#define FERMATA_STATUS_CONCAT_INNER(a, b) a##b
#define FERMATA_STATUS_CONCAT(a, b) FERMATA_STATUS_CONCAT_INNER(a, b)

// Assigns the value of the StatusOr `expr` to `lhs` (which may declare a variable), or returns its
// status from the calling function.
#define FERMATA_ASSIGN_OR_RETURN(lhs, expr) \
  FERMATA_ASSIGN_OR_RETURN_IMPL(FERMATA_STATUS_CONCAT(fermata_statusor_, __LINE__), lhs, expr)
#define FERMATA_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expr) \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#endif  // FERMATA_ENGINE_BASE_STATUS_H_
