#include "server/rest/proto_json.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "engine/base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "server/http/json.h"

namespace fermata {
namespace {

namespace pb = google::protobuf;
using nlohmann::json;

constexpr size_t kMaxQuotedBytes = 64;

pb::util::Status Parse(std::string_view text, pb::Message* message) {
  return pb::util::JsonStringToMessage({text.data(), text.size()}, message);
}

const pb::FieldDescriptor* FindField(const pb::Descriptor& type, const std::string& name) {
  if (const auto* field = type.FindFieldByName(name)) return field;
  return type.FindFieldByCamelcaseName(name);
}

bool IsWellKnown(const pb::Descriptor& type) { return type.file()->package() == "google.protobuf"; }

std::string WhatFits(const pb::FieldDescriptor& field) {
  if (field.is_map()) return "must be an object whose values are strings";
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return "must be a string";
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return "must be true or false";
    case pb::FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      names.reserve(field.enum_type()->value_count());
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        names.push_back(field.enum_type()->value(i)->name());
      }
      return absl::StrCat("must be one of ", absl::StrJoin(names, ", "));
    }
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return IsWellKnown(*field.message_type()) ? "must be a time in seconds, like \"1.5s\""
                                                : "must be an object";
    default:
      return absl::StrCat("must be a number of type ", field.cpp_type_name());
  }
}

// Why `object` is no message of `type`: the first of its members that does not fit by itself.
absl::Status Blame(const json& object, const pb::Descriptor& type, const std::string& path) {
  const std::unique_ptr<pb::Message> message(
      pb::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  for (const auto& [key, value] : object.items()) {
    const std::string name = absl::StrCat(path, path.empty() ? "" : ".", key);
    const pb::FieldDescriptor* field = FindField(type, key);
    if (field == nullptr) {
      return UnknownName(name, absl::StrCat("is no field of ", type.full_name()));
    }
    json alone;
    alone[key] = value;
    if (Parse(alone.dump(), message.get()).ok()) continue;
    const bool has_members = value.is_object() && !field->is_repeated() &&
                             field->message_type() != nullptr &&
                             !IsWellKnown(*field->message_type());
    if (has_members) return Blame(value, *field->message_type(), name);
    return InvalidField(name, WhatFits(*field));
  }
  return InvalidField(path.empty() ? "body" : path, "has fields that exclude one another");
}

}  // namespace

absl::Status FromJson(std::string_view text, pb::Message* message) {
  if (text.empty()) return absl::OkStatus();
  // Protobuf's own parser also takes what is not quite JSON.
  FERMATA_ASSIGN_OR_RETURN(const json object, ParseBody(text));
  if (!object.is_object()) return InvalidJson("body: must be an object");
  if (Parse(text, message).ok()) return absl::OkStatus();
  message->Clear();
  return Blame(object, *message->GetDescriptor(), "");
}

absl::Status UnknownName(std::string_view name, std::string_view why) {
  return InvalidField(name.substr(0, kMaxQuotedBytes), why);
}

std::string ToJson(const pb::Message& message) {
  pb::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  // Fails for what no field of ours holds: an Any of an unknown type, a time out of range.
  if (!pb::util::MessageToJsonString(message, &text, options).ok()) return "{}";
  return text;
}

}  // namespace fermata
