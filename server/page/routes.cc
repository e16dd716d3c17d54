#include "server/page/routes.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/page/embedded.h"
#include "xxhash.h"

namespace fermata {
namespace {

struct File {
  std::string_view path;
  std::string_view content_type;
  const std::string_view* bytes;
};

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kCss = "text/css; charset=utf-8";
constexpr std::string_view kJavaScript = "text/javascript; charset=utf-8";
constexpr std::string_view kSvg = "image/svg+xml";

constexpr File kFiles[] = {
    {"/", kHtml, &embedded::kPageHtml},
    {"/page/page.css", kCss, &embedded::kPageCss},
    {"/page/icon.svg", kSvg, &embedded::kIconSvg},
    {"/page/api.js", kJavaScript, &embedded::kApiJs},
    {"/page/conversation.js", kJavaScript, &embedded::kConversationJs},
    {"/page/dialogs.js", kJavaScript, &embedded::kDialogsJs},
    {"/page/dom.js", kJavaScript, &embedded::kDomJs},
    {"/page/memory.js", kJavaScript, &embedded::kMemoryJs},
    {"/page/page.js", kJavaScript, &embedded::kPageJs},
    {"/page/sessions.js", kJavaScript, &embedded::kSessionsJs},
    {"/page/settings.js", kJavaScript, &embedded::kSettingsJs},
    {"/page/stats.js", kJavaScript, &embedded::kStatsJs},
    {"/page/store.js", kJavaScript, &embedded::kStoreJs},
    {"/page/transcript.js", kJavaScript, &embedded::kTranscriptJs},
    {"/page/tree.js", kJavaScript, &embedded::kTreeJs},
    {"/page/trouble.js", kJavaScript, &embedded::kTroubleJs},
    {"/page/turn.js", kJavaScript, &embedded::kTurnJs},
    {"/page/view.js", kJavaScript, &embedded::kViewJs},
};

// The page runs its own scripts and styles, calls its own server, and nothing else.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Whether the browser has this version (RFC 9110, 13.1.2: the comparison is the weak one).
bool HasIt(const HttpRequest& request, const std::string& etag) {
  const std::string_view known = request.Header("If-None-Match").value_or("");
  for (absl::string_view one : absl::StrSplit(absl::string_view(known.data(), known.size()), ',')) {
    one = absl::StripAsciiWhitespace(one);
    absl::ConsumePrefix(&one, "W/");
    if (one == "*" || one == etag) return true;
  }
  return false;
}

HttpResponse Answer(const HttpRequest& request, const File& file, const std::string& etag) {
  HttpResponse response;
  response.content_type = file.content_type;
  response.headers = {{"ETag", etag},
                      {"Cache-Control", "no-cache"},  // It asks each time whether it changed.
                      {"Content-Security-Policy", std::string(kPolicy)},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"}};
  if (HasIt(request, etag)) {
    response.status = 304;
  } else {
    response.body = *file.bytes;
  }
  return response;
}

}  // namespace

void AddPageRoutes(const Front& /*front*/, HttpRouter& router) {
  for (const File& file : kFiles) {
    const std::string etag = absl::StrCat(
        "\"", absl::Hex(XXH3_64bits(file.bytes->data(), file.bytes->size()), absl::kZeroPad16),
        "\"");
    router.Add("GET", std::string(file.path),
               [file, etag](const HttpRequest& request) { return Answer(request, file, etag); });
  }
}

}  // namespace fermata
