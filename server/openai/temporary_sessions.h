#ifndef FERMATA_SERVER_OPENAI_TEMPORARY_SESSIONS_H_
#define FERMATA_SERVER_OPENAI_TEMPORARY_SESSIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/session/session_store.h"
#include "server/calls/front.h"
#include "server/http/exchange.h"

namespace fermata {

// Sessions that one request makes for itself: their ids can not be guessed, they live in memory, carry
// the label "temporary", and go with the request. Where they can not be deleted in time, their time to
// live ends them.
class TemporarySessions {
 public:
  TemporarySessions(const Front& front, HttpExchange& exchange)
      : front_(front), exchange_(exchange) {}
  // Has those that are left deleted.
  ~TemporarySessions();

  // Makes the first: empty.
  Awaitable<absl::Status> Create();
  // Makes forks of it, until there are `count`.
  Awaitable<absl::Status> Fork(int count);
  // Those that are in turns, which must have been cancelled, are waited for a little.
  Awaitable<void> Delete();

  const std::vector<std::string>& ids() const { return ids_; }

 private:
  // On a thread of the store's, with the ids, which it may change.
  using StoreWork = std::function<absl::Status(SessionStore&, std::vector<std::string>&)>;
  Awaitable<absl::Status> RunOnStore(StoreWork work);

  const Front& front_;
  HttpExchange& exchange_;
  std::vector<std::string> ids_;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENAI_TEMPORARY_SESSIONS_H_
