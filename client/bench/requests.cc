#include "client/bench/requests.h"

#include <algorithm>
#include <utility>

namespace fermata::bench {
namespace {

int64_t Draw(const TokenRange& range, Random& random) {
  return range.min + random.Below(range.max - range.min + 1);
}

}  // namespace

RequestMaker::RequestMaker(const Options& options, std::vector<Dialogue> prompts,
                           const v1::Model& model)
    : options_(options),
      prompts_(std::move(prompts)),
      end_ids_(model.eos_token_ids().begin(), model.eos_token_ids().end()),
      vocab_size_(model.vocab_size()) {
  std::ranges::sort(end_ids_);
}

v1::GenerateRequest RequestMaker::Make(int64_t number, const Arrival& arrival,
                                       const std::optional<SessionTurn>& session) const {
  Random random(options_.seed, static_cast<uint64_t>(number));
  v1::GenerateRequest request;
  AddPrompt(arrival, session, random, &request);
  if (session) {
    request.mutable_session()->set_id(session->id);
    request.mutable_session()->set_create_if_missing(true);
  }
  v1::SamplingParams* sampling = request.mutable_sampling();
  const int64_t generate = arrival.entry != nullptr ? arrival.entry->generate_tokens
                                                    : Draw(options_.generate_tokens, random);
  sampling->set_max_new_tokens(static_cast<int32_t>(generate));
  sampling->set_ignore_eos(true);
  sampling->set_seed(random.Next());
  if (options_.temperature) sampling->set_temperature(*options_.temperature);
  if (options_.top_k) sampling->set_top_k(*options_.top_k);
  if (options_.top_p) sampling->set_top_p(*options_.top_p);
  return request;
}

void RequestMaker::AddPrompt(const Arrival& arrival, const std::optional<SessionTurn>& session,
                             Random& random, v1::GenerateRequest* request) const {
  if (!prompts_.empty()) {
    const auto count = static_cast<int64_t>(prompts_.size());
    if (!session) {
      const Dialogue& dialogue = prompts_[random.Below(count)];
      request->set_text(dialogue[random.Below(static_cast<int64_t>(dialogue.size()))]);
      return;
    }
    // A session goes through one dialogue after another.
    int64_t at = session->dialogue % count;
    auto turn = static_cast<size_t>(session->turn);
    for (; turn >= prompts_[at].size(); at = (at + 1) % count) turn -= prompts_[at].size();
    request->set_text(prompts_[at][turn]);
    return;
  }
  v1::TokenIds* ids = request->mutable_token_ids();
  if (arrival.entry == nullptr) {
    AddTokens(Draw(options_.prompt_tokens, random), random, ids);
    return;
  }
  // A prompt of no tokens would be none.
  int64_t left = std::max<int64_t>(arrival.entry->prompt_tokens, 1);
  for (const int64_t block : arrival.entry->blocks) {
    Random tokens(options_.seed ^ 0xb10c, static_cast<uint64_t>(block));
    AddTokens(std::min(left, kTokensOfABlock), tokens, ids);
    left -= std::min(left, kTokensOfABlock);
  }
  AddTokens(left, random, ids);
}

void RequestMaker::AddTokens(int64_t count, Random& random, v1::TokenIds* ids) const {
  ids->mutable_ids()->Reserve(ids->ids_size() + static_cast<int>(count));
  for (int64_t i = 0; i < count; ++i) {
    auto id = static_cast<int32_t>(random.Below(vocab_size_));
    while (std::ranges::binary_search(end_ids_, id) &&
           static_cast<int64_t>(end_ids_.size()) < vocab_size_) {
      id = static_cast<int32_t>((id + 1) % vocab_size_);
    }
    ids->add_ids(id);
  }
}

}  // namespace fermata::bench
