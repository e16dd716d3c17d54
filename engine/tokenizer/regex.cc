#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/tokenizer/regex.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include <pcre2.h>

#include "engine/base/status.h"
#include "engine/base/utf8.h"

namespace fermata {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

// Rewrites an Oniguruma pattern for PCRE2.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        FERMATA_RETURN_IF_ERROR(Escape());
      } else if (in_class_) {
        FERMATA_RETURN_IF_ERROR(InClass());
      } else {
        FERMATA_RETURN_IF_ERROR(Plain());
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status Refuse(std::string_view what) const {
    return absl::InvalidArgumentError("the regular expression has, at byte " + std::to_string(at_) +
                                      ", " + std::string(what) + ", which is not supported");
  }
  bool Next(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void Copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  absl::Status Escape() {
    if (at_ + 1 == in_.size()) return Refuse("a \\ at its end");
    const char letter = in_[at_ + 1];
    constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    switch (letter) {
      case 's':
        out_ += "\\p{White_Space}";
        break;
      case 'S':
        out_ += "\\P{White_Space}";
        break;
      case 'w':
        out_ += in_class_ ? std::string(kWord) : "[" + std::string(kWord) + "]";
        break;
      case 'W':
        if (in_class_) return Refuse("\\W in a class");
        out_ += "[^" + std::string(kWord) + "]";
        break;
      case 'p':
      case 'P':
      case 'x': {
        const size_t close = in_.find('}', at_);
        const bool braces = at_ + 2 < in_.size() && in_[at_ + 2] == '{';
        Copy(braces && close != in_.npos ? close + 1 - at_ : 2);
        return absl::OkStatus();
      }
      default:
        // Letters that both read alike; any other means something else to one of the two.
        if (std::isalpha(static_cast<unsigned char>(letter)) != 0 &&
            std::string_view("dDnrtfveaAzZ").find(letter) == std::string_view::npos) {
          return Refuse(std::string("\\") + letter);
        }
        Copy(2);
        return absl::OkStatus();
    }
    at_ += 2;
    return absl::OkStatus();
  }

  absl::Status InClass() {
    if (Next("&&")) return Refuse("an intersection of classes");
    if (Next("[") && !Next("[:")) return Refuse("a class in a class");
    if (Next("[:")) {
      const size_t close = in_.find(":]", at_);
      if (close == in_.npos) return Refuse("a class in a class");
      Copy(close + 2 - at_);
      return absl::OkStatus();
    }
    in_class_ = in_[at_] != ']';
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Plain() {
    if (Next("[")) {
      in_class_ = true;
      Copy(Next("[^") ? 2 : 1);
      if (Next("]")) Copy(1);  // First in its class, it is an ordinary character.
      return absl::OkStatus();
    }
    if (Next("(?") && at_ + 2 < in_.size()) {
      const char flag = in_[at_ + 2];
      const bool is_flag = std::isalpha(static_cast<unsigned char>(flag)) != 0 || flag == '-';
      if (is_flag && !Next("(?i:") && !Next("(?i)")) return Refuse("a flag other than (?i");
      if (flag == 'P' || flag == '&' || flag == '|') return Refuse("a group of an unknown kind");
    }
    if (Next("{")) {
      const size_t close = in_.find('}', at_);
      if (Next("{,")) return Refuse("a repetition without a lower bound");
      if (close != in_.npos && in_.substr(close + 1).starts_with("+")) {
        return Refuse("a + after a bounded repetition");
      }
    }
    Copy(1);
    return absl::OkStatus();
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

struct Regex::Compiled {
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  FERMATA_ASSIGN_OR_RETURN(const std::string translated, Translator(pattern).Run());
  // In Ruby's syntax ^ and $ always match at lines.
  return CompilePcre2(translated, PCRE2_UCP | PCRE2_MULTILINE);
}

absl::StatusOr<Regex> Regex::Literal(std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("the pattern is empty");
  return CompilePcre2(text, PCRE2_LITERAL);
}

absl::StatusOr<Regex> Regex::CompilePcre2(std::string_view pattern, uint32_t options) {
  auto compiled = std::make_unique<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 options | PCRE2_UTF, &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError("the regular expression is broken at byte " +
                                      std::to_string(offset) + ": " +
                                      reinterpret_cast<const char*>(message));
  }
  // Where there is no just-in-time compiler, pcre2_match interprets.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled->context, kMatchLimit);
  pcre2_set_heap_limit(compiled->context, kHeapLimitKib);
  return Regex(std::move(compiled));
}

void Regex::ForEachMatch(std::string_view text,
                         absl::FunctionRef<void(size_t begin, size_t end)> match) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto run = [&](size_t from, uint32_t options) {
    return pcre2_match(compiled_->code, subject, text.size(), from, options | PCRE2_NO_UTF_CHECK,
                       data.get(), compiled_->context);
  };
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
  for (size_t from = 0; from < text.size();) {
    int result = run(from, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(from, PCRE2_NO_JIT);
    if (result < 0) return;
    if (bounds[1] > bounds[0] && bounds[0] >= from) {
      match(bounds[0], bounds[1]);
      from = bounds[1];
    } else {
      from = std::max(from, bounds[1]);
      if (from < text.size()) from += FirstUtf8Unit(text.substr(from)).length;
    }
  }
}

}  // namespace fermata
