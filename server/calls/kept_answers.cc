#include "server/calls/kept_answers.h"

#include "engine/base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "xxhash.h"

namespace fermata {
namespace {

// Of an answer beside its events: the objects that hold it, roughly.
constexpr int64_t kEntryBytes = 1024;

// What makes two requests the same: all that decides on the answer.
uint64_t HashOf(const v1::GenerateRequest& request) {
  v1::GenerateRequest same = request;
  same.clear_priority();
  same.clear_time_limit();
  same.clear_on_disconnect();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // Else maps come in any order.
    same.SerializeWithCachedSizes(&coded);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

// One turn. While it is in entries_, it and its stream hold each other.
class KeptAnswers::Entry : public TurnStream::Keeper,
                           public std::enable_shared_from_this<KeptAnswers::Entry> {
 public:
  Entry(KeptAnswers* owner, Key key, uint64_t request_hash)
      : owner(owner), key(std::move(key)), request_hash(request_hash) {}

  bool Add(int64_t bytes) override { return owner->Add(*this, bytes); }
  void Ended(bool had_effect) override { owner->Ended(*this, had_effect); }

  KeptAnswers* const owner;
  const Key key;
  const uint64_t request_hash;
  // Under the owner's mutex.
  std::shared_ptr<TurnStream> stream;
  int64_t bytes = kEntryBytes;
  absl::Time end;
};

KeptAnswers::KeptAnswers(const Options& options) : options_(options) {}

KeptAnswers::~KeptAnswers() {
  for (const auto& [key, entry] : entries_) entry->stream.reset();
}

absl::StatusOr<KeptAnswers::Opened> KeptAnswers::Open(const v1::GenerateRequest& request,
                                                      const Make& make) {
  const Key key(request.tenant(), request.request_id());
  const uint64_t hash = HashOf(request);
  Streams expired;
  const std::lock_guard lock(mutex_);
  expired = RemoveExpired();
  if (const auto found = entries_.find(key); found != entries_.end()) {
    if (found->second->request_hash == hash) return Opened{found->second->stream, false};
    return MakeError(absl::StatusCode::kAlreadyExists,
                     "request_id: another request has this id, and its answer is still kept",
                     {.reason = "REQUEST_ID_REUSED", .metadata = {}, .retry_after = {}});
  }
  const auto entry = std::make_shared<Entry>(this, key, hash);
  entry->stream = make(entry);
  entries_.emplace(key, entry);
  bytes_ += entry->bytes;
  return Opened{entry->stream, true};
}

absl::StatusOr<std::shared_ptr<TurnStream>> KeptAnswers::Find(const std::string& tenant,
                                                              const std::string& request_id) {
  Streams expired;
  const std::lock_guard lock(mutex_);
  expired = RemoveExpired();
  const auto found = entries_.find(Key(tenant, request_id));
  if (found != entries_.end()) return found->second->stream;
  return MakeError(absl::StatusCode::kNotFound,
                   "no turn of this request_id runs, and no answer to it is kept",
                   {.reason = "REQUEST_NOT_FOUND", .metadata = {}, .retry_after = {}});
}

KeptAnswers::Stats KeptAnswers::stats() {
  Streams expired;
  const std::lock_guard lock(mutex_);
  expired = RemoveExpired();
  return {.answers = static_cast<int64_t>(entries_.size()),
          .bytes = bytes_,
          .limit_bytes = options_.memory_bytes,
          .dropped = dropped_};
}

bool KeptAnswers::Add(Entry& entry, int64_t bytes) {
  Streams dropped;
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  entry.bytes += bytes;
  while (bytes_ > options_.memory_bytes && !ended_.empty()) {
    dropped.push_back(Remove(*ended_.front()));
    ended_.pop_front();
    ++dropped_;
  }
  if (bytes_ <= options_.memory_bytes) return true;
  bytes_ -= entry.bytes - kEntryBytes;
  entry.bytes = kEntryBytes;
  ++dropped_;
  return false;
}

void KeptAnswers::Ended(Entry& entry, bool had_effect) {
  Streams forgotten;
  const std::lock_guard lock(mutex_);
  if (!had_effect || options_.retention <= absl::ZeroDuration()) {
    forgotten.push_back(Remove(entry));
    return;
  }
  entry.end = options_.clock();
  ended_.push_back(entry.shared_from_this());
}

KeptAnswers::Streams KeptAnswers::RemoveExpired() {
  const absl::Time now = options_.clock();
  Streams expired;
  while (!ended_.empty() && ended_.front()->end + options_.retention <= now) {
    expired.push_back(Remove(*ended_.front()));
    ended_.pop_front();
  }
  return expired;
}

std::shared_ptr<TurnStream> KeptAnswers::Remove(Entry& entry) {
  bytes_ -= entry.bytes;
  std::shared_ptr<TurnStream> stream = std::move(entry.stream);
  entries_.erase(entry.key);  // The stream still holds the entry.
  return stream;
}

}  // namespace fermata
