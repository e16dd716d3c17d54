#include "engine/base/json.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace fermata {
namespace {

using nlohmann::json;

constexpr size_t kMaxQuotedBytes = 200;

// Builds the tree from the parser's events, and stops it at the first thing it does not like.
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t&) override { return Value(value); }
  bool string(string_t& value) override { return Value(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [it, inserted] = open_.back()->emplace(name, nullptr);
    if (!inserted) return Fail(absl::StrCat("the key ", Quoted(name), " stands twice"));
    member_ = &*it;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Fail(absl::StrCat("not valid JSON at byte ", position));
  }

  json& root() { return root_; }
  const std::string& error() const { return error_; }

 private:
  // Puts the value where the parser stands. What is open further out is not touched meanwhile, so
  // pointers to it stay valid.
  json* Add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool Value(json value) {
    Add(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (open_.size() == kMaxJsonDepth) {
      return Fail(absl::StrCat("JSON nested deeper than ", kMaxJsonDepth));
    }
    open_.push_back(Add(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string why) {
    error_ = std::move(why);
    return false;
  }

  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;  // The innermost open object's last key.
  std::string error_;
};

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view source) {
  // Where one stands, nlohmann's parser takes the text for ended.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(absl::string_view(source.data(), source.size()),
                                                   ": not valid JSON at byte ", nul));
  }
  TreeBuilder builder;
  if (!json::sax_parse(text, &builder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::string_view(source.data(), source.size()), ": ", builder.error()));
  }
  return std::move(builder.root());
}

std::string Quoted(std::string_view name) {
  const bool cut = name.size() > kMaxQuotedBytes;
  if (cut) name = name.substr(0, kMaxQuotedBytes);
  return absl::StrCat("\"", absl::CHexEscape({name.data(), name.size()}), cut ? "…\"" : "\"");
}

}  // namespace fermata
