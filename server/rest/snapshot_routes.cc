#include "server/rest/snapshot_routes.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "server/calls/snapshot_calls.h"
#include "server/http/answer.h"
#include "server/rest/replies.h"
#include "server/rest/requests.h"

namespace fermata {
namespace {

// One is copied at a time, on the thread of all connections.
constexpr size_t kPartBytes = 256 << 10;

HttpResponse HeadOf(const std::string& id, const SnapshotParts& parts) {
  const std::string checksum = absl::StrCat(absl::Hex(parts.Checksum(), absl::kZeroPad16));
  return {.content_type = "application/octet-stream",
          .body = "",
          .headers = {
              {"Content-Disposition", absl::StrCat("attachment; filename=\"", id, ".fermata\"")},
              {"Snapshot-Bytes", absl::StrCat(parts.total())},
              {"Snapshot-Checksum", absl::StrCat("xxh3=", checksum)}}};
}

absl::Status BeginExport(const HttpRequest& http, SnapshotExport& snapshot) {
  FERMATA_ASSIGN_OR_RETURN(const v1::ExportSessionRequest request, ToExportSession(http));
  return snapshot.Begin(request);
}

absl::Status BeginImport(const HttpRequest& http, SnapshotImport& snapshot) {
  FERMATA_ASSIGN_OR_RETURN(const v1::ImportOptions options, ToImportOptions(http));
  FERMATA_RETURN_IF_ERROR(snapshot.Begin());
  return snapshot.SetOptions(options);
}

Awaitable<bool> SendParts(HttpExchange& exchange, SnapshotParts& parts) {
  bool sent = true;
  while (sent && !parts.done()) {
    v1::SnapshotPart part;
    parts.Next(&part);
    std::string data = std::move(*part.mutable_data());
    sent = co_await exchange.Write(std::move(data));
  }
  if (sent) sent = co_await exchange.EndStream();
  co_return sent;
}

Awaitable<absl::Status> ReceiveParts(HttpExchange& exchange, SnapshotImport& snapshot) {
  for (bool first = true;; first = false) {
    absl::StatusOr<std::string> part = co_await exchange.ReadBody();
    if (!part.ok()) co_return part.status();
    if (part->empty() && first) co_return InvalidField("body", "must be a snapshot");
    if (part->empty()) co_return absl::OkStatus();
    absl::Status added = snapshot.Add(*part);
    if (!added.ok()) co_return added;
  }
}

}  // namespace

Awaitable<void> ExportSession(const Front& front, HttpExchange& exchange) {
  CallRecord record(front.metrics, "ExportSession", "", OriginOf(exchange.request()));
  // Shared, as the server may stop while a worker is at it.
  const auto snapshot = std::make_shared<SnapshotExport>(front);
  const absl::Status begun = BeginExport(exchange.request(), *snapshot);
  absl::StatusOr<HttpResponse> head = HttpResponse();
  if (!begun.ok()) {
    head = begun;
  } else {
    const std::string id = exchange.request().parameters.at("id");
    std::function<absl::StatusOr<HttpResponse>()> fetch = [snapshot,
                                                           id]() -> absl::StatusOr<HttpResponse> {
      FERMATA_RETURN_IF_ERROR(snapshot->Fetch(kPartBytes));
      return HeadOf(id, snapshot->parts());
    };
    head = co_await RunOn(*front.sessions, exchange, std::move(fetch));
  }
  if (!head.ok()) {
    co_await FinishCall(record, exchange, std::move(head));
    co_return;
  }
  HttpResponse start = *std::move(head);
  bool sent = co_await exchange.BeginStream(std::move(start));
  if (sent) sent = co_await SendParts(exchange, snapshot->parts());
  if (sent) {
    record.Succeed();
  } else {
    record.Fail(absl::CancelledError("the client is gone"));
  }
}

Awaitable<void> ImportSession(const Front& front, HttpExchange& exchange) {
  CallRecord record(front.metrics, "ImportSession", "", OriginOf(exchange.request()));
  const auto snapshot = std::make_shared<SnapshotImport>(front);
  absl::Status received = BeginImport(exchange.request(), *snapshot);
  if (received.ok()) received = co_await ReceiveParts(exchange, *snapshot);
  absl::StatusOr<HttpResponse> answer = HttpResponse();
  if (!received.ok()) {
    answer = received;
  } else {
    std::function<absl::StatusOr<HttpResponse>()> commit =
        [snapshot]() -> absl::StatusOr<HttpResponse> {
      v1::Session session;
      FERMATA_RETURN_IF_ERROR(snapshot->Commit(&session));
      return ToNewSessionReply(session);
    };
    answer = co_await RunOn(*front.sessions, exchange, std::move(commit));
  }
  co_await FinishCall(record, exchange, std::move(answer));
}

}  // namespace fermata
