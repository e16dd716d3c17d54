#ifndef FERMATA_CLIENT_BENCH_REQUESTS_H_
#define FERMATA_CLIENT_BENCH_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "client/bench/arrivals.h"
#include "client/bench/options.h"
#include "client/bench/prompts.h"
#include "client/bench/random.h"
#include "client/bench/session_pool.h"
#include "fermata/v1/generation.pb.h"
#include "fermata/v1/models.pb.h"

namespace fermata::bench {

// What each request of a run asks for: a function of the options and the request's number, and for
// prompts that are dialogues, of the session's turn.
class RequestMaker {
 public:
  // `prompts` may be empty: then prompts are token ids at random. The options must outlive it.
  RequestMaker(const Options& options, std::vector<Dialogue> prompts, const v1::Model& model);

  v1::GenerateRequest Make(int64_t number, const Arrival& arrival,
                           const std::optional<SessionTurn>& session) const;

 private:
  void AddTokens(int64_t count, Random& random, v1::TokenIds* ids) const;
  void AddPrompt(const Arrival& arrival, const std::optional<SessionTurn>& session, Random& random,
                 v1::GenerateRequest* request) const;

  const Options& options_;
  std::vector<Dialogue> prompts_;
  std::vector<int32_t> end_ids_;  // That random prompts do without, sorted.
  int64_t vocab_size_;
};

}  // namespace fermata::bench

#endif  // FERMATA_CLIENT_BENCH_REQUESTS_H_
