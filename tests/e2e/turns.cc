#include "tests/e2e/turns.h"

#include <nlohmann/json.hpp>

#include "client/error.h"
#include "gtest/gtest.h"

namespace fermata::e2e {
namespace {

bool IsUtf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void Add(const v1::Chunk& chunk, Turn* turn) {
  EXPECT_EQ(chunk.index(), static_cast<int64_t>(turn->ids.size()));
  if (!turn->chunks.empty()) {
    EXPECT_EQ(chunk.position() - chunk.index(),
              turn->chunks[0].position() - turn->chunks[0].index());
  }
  EXPECT_TRUE(IsUtf8(chunk.text()));
  EXPECT_TRUE(chunk.token_ids_size() > 0 || !chunk.text().empty()) << "an empty chunk";
  turn->text += chunk.text();
  turn->ids.insert(turn->ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  for (int i = 0; i < chunk.logprobs_size(); ++i) {
    EXPECT_EQ(chunk.logprobs(i).token_id(), chunk.token_ids(i));
    turn->logprobs.push_back(chunk.logprobs(i).logprob());
  }
  turn->chunks.push_back(chunk);
}

v1::GenerateRequest Request(const std::string& prompt, int n) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  request.mutable_sampling()->set_max_new_tokens(n);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

}  // namespace

Turn Collect(client::GenerateStream& stream) {
  Turn turn;
  int started = 0;
  int completed = 0;
  v1::GenerateResponse event;
  while (stream.Next(&event)) {
    EXPECT_EQ(completed, 0) << "something after `complete`";
    if (event.has_started()) {
      EXPECT_TRUE(turn.chunks.empty());
      turn.started = event.started();
      ++started;
    } else if (event.has_chunk()) {
      EXPECT_EQ(started, 1);
      Add(event.chunk(), &turn);
    } else if (event.has_complete()) {
      turn.complete = event.complete();
      ++completed;
    } else {
      ADD_FAILURE() << "an event of no kind";
    }
  }
  turn.status = stream.Finish();
  EXPECT_LE(started, 1);
  EXPECT_EQ(completed, turn.status.ok() ? 1 : 0) << turn.status;
  if (turn.status.ok()) {
    EXPECT_EQ(started, 1);
    EXPECT_EQ(turn.complete.usage().generated_tokens(), static_cast<int64_t>(turn.ids.size()));
  }
  return turn;
}

Turn RunTurn(client::Client& client, const v1::GenerateRequest& request) {
  return Collect(*client.StartGenerate(request));
}

Turn RunOk(client::Client& client, const v1::GenerateRequest& request) {
  Turn turn = RunTurn(client, request);
  EXPECT_TRUE(turn.status.ok()) << client::Describe(turn.status);
  return turn;
}

v1::GenerateRequest Greedy(const std::string& prompt, int n) {
  v1::GenerateRequest request = Request(prompt, n);
  request.mutable_sampling()->set_temperature(0);
  return request;
}

v1::GenerateRequest Seeded(const std::string& prompt, int n, uint64_t seed) {
  v1::GenerateRequest request = Request(prompt, n);
  request.mutable_sampling()->set_seed(seed);
  return request;
}

v1::GenerateRequest On(const std::string& session, v1::GenerateRequest request) {
  request.mutable_session()->set_id(session);
  request.mutable_session()->set_create_if_missing(true);
  return request;
}

v1::GenerateRequest WithIds(v1::GenerateRequest request, const std::vector<int32_t>& ids) {
  request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return request;
}

v1::GenerateRequest Endless(const std::string& prompt) { return Seeded(prompt, 1 << 20, 1); }

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int32_t> Tokenize(client::Client& client, const std::string& text) {
  v1::TokenizeRequest request;
  request.set_text(text);
  const auto reply = client.Tokenize(request);
  EXPECT_TRUE(reply.ok()) << reply.status();
  if (!reply.ok()) return {};
  return {reply->token_ids().begin(), reply->token_ids().end()};
}

std::string Detokenize(client::Client& client, const std::vector<int32_t>& ids) {
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Add(ids.begin(), ids.end());
  const auto reply = client.Detokenize(request);
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? reply->text() : "";
}

std::string Reason(const absl::Status& status) { return client::DetailsOf(status).reason; }

std::string Metadata(const absl::Status& status, const std::string& key) {
  const auto metadata = client::DetailsOf(status).metadata;
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace fermata::e2e
