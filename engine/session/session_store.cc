#include "engine/session/session_store.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/session/memory_tier.h"
#include "engine/session/page_token.h"
#include "engine/session/session_index.h"
#include "engine/session/tombstones.h"

namespace fermata {
namespace {

constexpr size_t kMaxTombstones = 65536;
constexpr size_t kListBatch =
    64;  // Ids that List takes at a time, so that it never holds up turns.

// 128 random bits, for whoever knows an id may use the session.
absl::StatusOr<std::string> GenerateId() {
  char random[16];
  if (getentropy(random, sizeof(random)) != 0) {
    return absl::InternalError("the system gives no random bytes for a session id");
  }
  return "s-" + absl::BytesToHexString(absl::string_view(random, sizeof(random)));
}

// `status` with the session it is about.
absl::Status About(std::string_view id, const absl::Status& status) {
  ErrorDetails details = DetailsOf(status);
  details.metadata.emplace("session_id", id);
  return MakeError(status.code(), std::string(status.message()), details);
}

absl::Status PositionMismatch(std::string_view id, int64_t expected, int64_t actual) {
  return MakeError(
      absl::StatusCode::kAborted,
      "the session is at position " + std::to_string(actual) + ", not at " +
          std::to_string(expected),
      {.reason = "POSITION_MISMATCH",
       .metadata = {{"session_id", std::string(id)}, {"position", std::to_string(actual)}},
       .retry_after = {}});
}

bool HasLabels(const SessionRecord& record, const std::map<std::string, std::string>& labels) {
  return std::includes(record.labels.begin(), record.labels.end(), labels.begin(), labels.end());
}

}  // namespace

struct SessionStore::Impl {
  using Entry = SessionIndex::Entry;

  // The entry of `id`, unless it is none or has expired (then it is dropped). Needs the mutex, as
  // the four below do.
  Entry* FindLive(std::string_view id, absl::Time now);
  void DropExpired(absl::Time now);
  void Drop(Entry& entry);  // As expired or evicted.
  // A leased entry for a session that does not exist, with a place in the tier.
  absl::StatusOr<Entry*> Admit(std::string_view id, absl::Time now);
  absl::Status Missing(std::string_view id) const;
  absl::Status Busy(std::string_view id) const;

  // Makes `record` and `state` those of a leased entry, and ends its lease.
  void Publish(Entry& entry, const SessionRecord& record, std::span<const std::byte> state);
  // Ends the lease of an entry and leaves it as it was before, be that not to exist.
  void Abandon(Entry& entry);

  SessionRecord NewRecord(std::string_view id, std::optional<absl::Duration> ttl,
                          absl::Time now) const {
    SessionRecord record;
    record.id = id;
    record.model_fingerprint = options.model_fingerprint;
    record.create_time = record.update_time = now;
    record.ttl = ttl.has_value() ? ttl : options.default_ttl;
    return record;
  }

  SessionStoreOptions options;
  std::unique_ptr<Tier> tier;

  mutable std::mutex mutex;  // Guards what follows. Taken before any lock of the tier.
  SessionIndex index;
  Tombstones tombstones{kMaxTombstones};
  int64_t evictions = 0;
  int64_t expirations = 0;
};

SessionIndex::Entry* SessionStore::Impl::FindLive(std::string_view id, absl::Time now) {
  Entry* entry = index.Find(id);
  if (entry == nullptr || entry->leased || entry->expiry > now) return entry;
  Drop(*entry);
  ++expirations;
  return nullptr;
}

void SessionStore::Impl::DropExpired(absl::Time now) {
  while (Entry* entry = index.Expired(now)) {
    Drop(*entry);
    ++expirations;
  }
}

void SessionStore::Impl::Drop(Entry& entry) {
  tombstones.Add(entry.id());
  tier->Erase(entry.id());
  index.Remove(entry);
}

absl::StatusOr<SessionIndex::Entry*> SessionStore::Impl::Admit(std::string_view id,
                                                               absl::Time now) {
  absl::Status reserved = tier->Reserve(id);
  if (absl::IsResourceExhausted(reserved)) {
    DropExpired(now);
    reserved = tier->Reserve(id);
  }
  while (absl::IsResourceExhausted(reserved)) {
    Entry* victim = index.LeastRecentlyUsed();
    if (victim == nullptr) {
      ErrorDetails details = DetailsOf(reserved);
      details.metadata.emplace("session_id", id);
      details.retry_after = options.retry_after;
      return MakeError(reserved.code(), "every session in memory is in a turn", details);
    }
    Drop(*victim);
    ++evictions;
    reserved = tier->Reserve(id);
  }
  FERMATA_RETURN_IF_ERROR(reserved);
  tombstones.Remove(id);
  return &index.Add(id);
}

absl::Status SessionStore::Impl::Missing(std::string_view id) const {
  const bool lost = tombstones.Has(id);
  return MakeError(absl::StatusCode::kNotFound,
                   lost ? "the session has expired or was evicted" : "no such session",
                   {.reason = lost ? "SESSION_EXPIRED" : "SESSION_NOT_FOUND",
                    .metadata = {{"session_id", std::string(id)}},
                    .retry_after = {}});
}

absl::Status SessionStore::Impl::Busy(std::string_view id) const {
  return MakeError(absl::StatusCode::kAborted, "the session is in another turn",
                   {.reason = "SESSION_BUSY",
                    .metadata = {{"session_id", std::string(id)}},
                    .retry_after = options.retry_after});
}

void SessionStore::Impl::Publish(Entry& entry, const SessionRecord& record,
                                 std::span<const std::byte> state) {
  // The lease keeps all others from this session, so the state is copied without the mutex.
  if (const absl::Status put = tier->Put(record, state); !put.ok()) {
    std::fprintf(stderr, "fermata: a commit that can not be: %s\n", put.ToString().c_str());
    std::abort();
  }
  const std::lock_guard lock(mutex);
  index.Settle(entry, record);
  index.Release(entry);
}

void SessionStore::Impl::Abandon(Entry& entry) {
  const std::lock_guard lock(mutex);
  if (entry.settled) {
    index.Release(entry);
  } else {
    tier->Erase(entry.id());
    index.Remove(entry);
  }
}

SessionStore::SessionStore(SessionStoreOptions options)
    : SessionStore(options,
                   std::make_unique<MemoryTier>(options.state_bytes, options.memory_bytes)) {}

SessionStore::SessionStore(SessionStoreOptions options, std::unique_ptr<Tier> tier)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->tier = std::move(tier);
}

SessionStore::~SessionStore() = default;

absl::StatusOr<SessionRecord> SessionStore::Create(const CreateOptions& options) {
  std::string id = options.id;
  if (id.empty()) {
    FERMATA_ASSIGN_OR_RETURN(id, GenerateId());
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  if (options.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*options.ttl, "ttl"));
  const absl::Time now = impl_->options.clock();
  SessionIndex::Entry* entry;
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto* existing = impl_->FindLive(id, now); existing != nullptr) {
      if (!existing->settled) return impl_->Busy(id);
      return MakeError(
          absl::StatusCode::kAlreadyExists, "there is a session of that id",
          {.reason = "SESSION_EXISTS", .metadata = {{"session_id", id}}, .retry_after = {}});
    }
    FERMATA_ASSIGN_OR_RETURN(entry, impl_->Admit(id, now));
  }
  SessionRecord record = impl_->NewRecord(id, options.ttl, now);
  record.labels = options.labels;
  const AlignedBuffer<std::byte> zero(impl_->options.state_bytes);
  impl_->Publish(*entry, record, zero.span());
  return record;
}

absl::StatusOr<SessionRecord> SessionStore::Get(std::string_view id) const {
  const absl::Time now = impl_->options.clock();
  const std::lock_guard lock(impl_->mutex);
  const auto* entry = impl_->FindLive(id, now);
  if (entry == nullptr || !entry->settled) return impl_->Missing(id);
  absl::StatusOr<SessionRecord> record = impl_->tier->Record(id);
  if (!record.ok()) return About(id, record.status());
  return record;
}

absl::Status SessionStore::Delete(std::string_view id) {
  const absl::Time now = impl_->options.clock();
  const std::lock_guard lock(impl_->mutex);
  auto* entry = impl_->FindLive(id, now);
  if (entry == nullptr) return impl_->Missing(id);
  if (entry->leased) return impl_->Busy(id);
  impl_->tier->Erase(id);
  impl_->index.Remove(*entry);
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> SessionStore::Update(std::string_view id,
                                                   const UpdateOptions& options) {
  if (options.labels.has_value()) {
    FERMATA_RETURN_IF_ERROR(ValidateLabels(*options.labels, "labels"));
  }
  if (options.ttl.has_value() && options.ttl->has_value()) {
    FERMATA_RETURN_IF_ERROR(ValidateTtl(**options.ttl, "ttl"));
  }
  const absl::Time now = impl_->options.clock();
  const std::lock_guard lock(impl_->mutex);
  auto* entry = impl_->FindLive(id, now);
  if (entry == nullptr) return impl_->Missing(id);
  if (entry->leased) return impl_->Busy(id);
  absl::StatusOr<SessionRecord> record = impl_->tier->Record(id);
  if (!record.ok()) return About(id, record.status());
  if (options.labels.has_value()) record->labels = *options.labels;
  if (options.ttl.has_value()) record->ttl = *options.ttl;
  record->update_time = now;
  if (const absl::Status put = impl_->tier->PutRecord(*record); !put.ok()) return About(id, put);
  impl_->index.Lease(*entry);
  impl_->index.Settle(*entry, *record);
  impl_->index.Release(*entry);
  return record;
}

absl::StatusOr<SessionStore::Page> SessionStore::List(const ListOptions& options) const {
  if (options.page_size < 1) return InvalidField("page_size", "must be at least 1");
  FERMATA_RETURN_IF_ERROR(ValidateLabels(options.labels, "labels"));
  FERMATA_ASSIGN_OR_RETURN(std::string last, DecodePageToken(options.page_token, options.labels));
  const size_t page_size = std::min(options.page_size, kMaxPageSize);
  const absl::Time now = impl_->options.clock();
  Page page;
  for (;;) {
    std::vector<std::string> ids;
    {
      const std::lock_guard lock(impl_->mutex);
      ids = impl_->index.After(last, kListBatch, now);
    }
    if (ids.empty()) return page;
    for (std::string& id : ids) {
      absl::StatusOr<SessionRecord> record = impl_->tier->Record(id);
      if (absl::IsNotFound(record.status())) continue;  // It has gone meanwhile.
      if (!record.ok()) return About(id, record.status());
      if (!HasLabels(*record, options.labels)) continue;
      if (page.sessions.size() == page_size) {
        page.next_page_token = EncodePageToken(page.sessions.back().id, options.labels);
        return page;
      }
      page.sessions.push_back(*std::move(record));
    }
    last = std::move(ids.back());
  }
}

struct SessionStore::Lease::Impl {
  Impl(SessionStore::Impl* store, SessionIndex::Entry* entry) : store(store), entry(entry) {}
  ~Impl() {
    if (entry != nullptr) store->Abandon(*entry);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  SessionStore::Impl* store;
  SessionIndex::Entry* entry;  // Null once committed.
  SessionRecord record;
  bool is_new = false;                // Nothing is stored yet.
  std::optional<absl::Duration> ttl;  // The commit's.
};

absl::StatusOr<SessionStore::Lease> SessionStore::Begin(const BeginOptions& options) {
  std::string id = options.id;
  if (id.empty() && options.create_if_missing) {
    FERMATA_ASSIGN_OR_RETURN(id, GenerateId());
  }
  FERMATA_RETURN_IF_ERROR(ValidateSessionId(id, "id"));
  if (options.ttl.has_value()) FERMATA_RETURN_IF_ERROR(ValidateTtl(*options.ttl, "ttl"));
  const absl::Time now = impl_->options.clock();
  SessionIndex::Entry* entry;
  bool is_new = false;
  {
    const std::lock_guard lock(impl_->mutex);
    entry = impl_->FindLive(id, now);
    if (entry == nullptr && !options.create_if_missing) return impl_->Missing(id);
    if (entry != nullptr && entry->leased) return impl_->Busy(id);
    const int64_t position = entry == nullptr ? 0 : entry->position;
    if (const int64_t expected = options.expected_position.value_or(position);
        expected != position) {
      return PositionMismatch(id, expected, position);
    }
    if (entry == nullptr) {
      is_new = true;
      FERMATA_ASSIGN_OR_RETURN(entry, impl_->Admit(id, now));
    } else {
      impl_->index.Lease(*entry);
    }
  }
  auto lease = std::make_unique<Lease::Impl>(impl_.get(), entry);
  lease->is_new = is_new;
  lease->ttl = options.ttl;
  if (is_new) {
    lease->record = impl_->NewRecord(id, options.ttl, now);
  } else {
    absl::StatusOr<SessionRecord> record = impl_->tier->Record(id);
    if (!record.ok()) return About(id, record.status());
    lease->record = *std::move(record);
  }
  return Lease(std::move(lease));
}

SessionStore::Lease::Lease() = default;
SessionStore::Lease::Lease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SessionStore::Lease::Lease(Lease&&) noexcept = default;
SessionStore::Lease& SessionStore::Lease::operator=(Lease&&) noexcept = default;
SessionStore::Lease::~Lease() = default;

bool SessionStore::Lease::valid() const { return impl_ != nullptr; }

bool SessionStore::Lease::creates() const { return impl_->is_new; }

const SessionRecord& SessionStore::Lease::record() const { return impl_->record; }

absl::Status SessionStore::Lease::ReadState(std::span<std::byte> state) const {
  if (impl_->is_new) {
    std::fill(state.begin(), state.end(), std::byte{0});
    return absl::OkStatus();
  }
  const std::string& id = impl_->record.id;
  const absl::Status read = impl_->store->tier->State(id, state);
  return read.ok() ? read : About(id, read);
}

SessionRecord SessionStore::Lease::Commit(const SessionRecord& record,
                                          std::span<const std::byte> state) {
  const std::unique_ptr<Impl> lease = std::move(impl_);
  SessionRecord next = lease->record;  // A copy: `record` may be that very one.
  next.position = record.position;
  next.pending_token = record.pending_token;
  next.sampler_memory = record.sampler_memory;
  next.update_time = lease->store->options.clock();
  if (lease->ttl.has_value()) next.ttl = lease->ttl;
  ++next.turns;
  lease->store->Publish(*std::exchange(lease->entry, nullptr), next, state);
  return next;
}

void SessionStore::DropExpired() {
  const absl::Time now = impl_->options.clock();
  const std::lock_guard lock(impl_->mutex);
  impl_->DropExpired(now);
}

SessionStoreStats SessionStore::stats() const {
  const std::lock_guard lock(impl_->mutex);
  const TierUsage usage = impl_->tier->usage();
  return {.sessions = impl_->index.sessions(),
          .bytes = usage.bytes,
          .memory_limit = usage.limit_bytes,
          .capacity = usage.capacity,
          .positions = impl_->index.positions(),
          .evictions = impl_->evictions,
          .expirations = impl_->expirations};
}

}  // namespace fermata
