#include "engine/formats/torch_pickle.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/utf8.h"
#include "engine/formats/byte_reader.h"
#include "engine/formats/pickle_opcodes.h"

namespace fermata {
namespace {

constexpr char kAdvice[] =
    " (only a dict of tensors is read, and no pickle is run: convert the file to .safetensors)";
constexpr size_t kMaxRank = 16;

enum class Callable { kOrderedDict, kRebuildTensor, kRebuildParameter, kStorage };

// What a pickle may name: module and name, as the two lines stand in it.
struct Global {
  std::string_view module;
  std::string_view name;
  Callable callable;
  std::string_view dtype;  // Of a storage.
};
constexpr Global kGlobals[] = {
    {"collections", "OrderedDict", Callable::kOrderedDict, ""},
    {"torch._utils", "_rebuild_tensor_v2", Callable::kRebuildTensor, ""},
    {"torch._utils", "_rebuild_parameter", Callable::kRebuildParameter, ""},
    {"torch", "FloatStorage", Callable::kStorage, "F32"},
    {"torch", "HalfStorage", Callable::kStorage, "F16"},
    {"torch", "BFloat16Storage", Callable::kStorage, "BF16"},
    {"torch", "DoubleStorage", Callable::kStorage, "F64"},
    {"torch", "LongStorage", Callable::kStorage, "I64"},
    {"torch", "IntStorage", Callable::kStorage, "I32"},
    {"torch", "ShortStorage", Callable::kStorage, "I16"},
    {"torch", "CharStorage", Callable::kStorage, "I8"},
    {"torch", "ByteStorage", Callable::kStorage, "U8"},
    {"torch", "BoolStorage", Callable::kStorage, "BOOL"},
};

enum class Kind { kNone, kBool, kInt, kString, kTuple, kDict, kGlobal, kStorage, kTensor };

// A value by its place in the machine's list of values: what a pickle shares, and the loops that it
// can build, cost nothing and are followed nowhere.
using Ref = uint32_t;

struct Value {
  Kind kind = Kind::kNone;
  int64_t integer = 0;    // kInt. Of kStorage the size; of kGlobal and kTensor the place in a list.
  std::string_view text;  // kString. Of kStorage the key; the type is that of items[0].
  std::vector<Ref> items;  // Of kTuple; of kDict keys and values by turns.
};

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, std::string_view source)
      : reader_(pickle), source_(source) {}

  absl::StatusOr<PickledTensors> Run() {
    bool stopped = false;
    while (!stopped) {
      at_ = reader_.offset();
      uint8_t opcode = 0;
      if (!reader_.Read(&opcode)) return Truncated();
      if (opcode == kStop) {
        stopped = true;
      } else {
        FERMATA_RETURN_IF_ERROR(Step(opcode));
      }
    }
    if (stack_.size() != 1 || !marks_.empty()) return Error("ends with more or less than a value");
    if (reader_.left() > 0) return Error(absl::StrCat("goes on for ", reader_.left(), " bytes"));
    return Result(values_[stack_.front()]);
  }

 private:
  static constexpr uint8_t kStop = '.';

  absl::Status Error(const std::string& why) const {
    return absl::InvalidArgumentError(
        absl::StrCat(source_, ": the pickle at byte ", at_, ": ", why, kAdvice));
  }
  absl::Status Truncated() const { return Error("truncated"); }

  absl::Status Step(uint8_t opcode) {
    switch (opcode) {
      case 0x80:
        return Protocol();
      case '(':
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case ')':
        return Push({.kind = Kind::kTuple});
      case '}':
        return Push({.kind = Kind::kDict});
      case 'N':
        return Push({.kind = Kind::kNone});
      case 0x88:
      case 0x89:
        return Push({.kind = Kind::kBool});
      case 'K':
        return PushInt<uint8_t>();
      case 'M':
        return PushInt<uint16_t>();
      case 'J':
        return PushInt<int32_t>();
      case 0x8a:
        return PushLong();
      case 'X':
        return PushString();
      case 'c':
        return PushGlobal();
      case 'q':
        return Put<uint8_t>();
      case 'r':
        return Put<uint32_t>();
      case 'h':
        return Get<uint8_t>();
      case 'j':
        return Get<uint32_t>();
      case 0x85:
      case 0x86:
      case 0x87:
        return Tuple(opcode - 0x84);
      case 't':
      case 'u':
        return FromMark(opcode);
      case 's':
        return SetItems(2);
      case 'b':
        return Build();
      case 'Q':
        return LoadStorage();
      case 'R':
        return Reduce();
      default:
        return Error(PickleOpcodeText(opcode));
    }
  }

  absl::Status Push(Value value) {
    stack_.push_back(static_cast<Ref>(values_.size()));
    values_.push_back(std::move(value));
    return absl::OkStatus();
  }

  // The values above the last mark, or the whole stack's.
  size_t Height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  // Takes the top `count` values off the stack, in the order they were pushed.
  absl::StatusOr<std::vector<Ref>> Pop(size_t count) {
    if (Height() < count) return Error("takes more values than there are");
    std::vector<Ref> values(stack_.end() - count, stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  absl::Status Protocol() {
    uint8_t version = 0;
    if (!reader_.Read(&version)) return Truncated();
    return version == 2 && at_ == 0 ? absl::OkStatus()
                                    : Error(absl::StrCat("protocol ", version, ", wanted 2"));
  }

  template <typename T>
  absl::Status PushInt() {
    T value = 0;
    if (!reader_.Read(&value)) return Truncated();
    return Push({.kind = Kind::kInt, .integer = value});
  }

  // An integer in as many bytes as the first says.
  absl::Status PushLong() {
    uint8_t length = 0;
    std::span<const std::byte> bytes;
    if (!reader_.Read(&length) || !reader_.Read(length, &bytes)) return Truncated();
    if (length > sizeof(int64_t)) return Error("an integer of more than 64 bits");
    const bool negative = length > 0 && (bytes.back() & std::byte{0x80}) != std::byte{0};
    uint64_t value = negative ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), length);
    return Push({.kind = Kind::kInt, .integer = static_cast<int64_t>(value)});
  }

  absl::Status PushString() {
    uint32_t length = 0;
    std::string_view text;
    if (!reader_.Read(&length) || !reader_.Read(length, &text)) return Truncated();
    if (!IsUtf8(text)) return Error(absl::StrCat("a string that is not UTF-8: ", Quoted(text)));
    return Push({.kind = Kind::kString, .text = text});
  }

  absl::Status PushGlobal() {
    std::string_view module;
    std::string_view name;
    if (!reader_.ReadLine(&module) || !reader_.ReadLine(&name)) return Truncated();
    const auto* global = std::ranges::find_if(kGlobals, [&](const Global& known) {
      return known.module == module && known.name == name;
    });
    if (global == std::end(kGlobals)) {
      return Error(absl::StrCat("names ", Quoted(std::string(module) + "." + std::string(name))));
    }
    return Push({.kind = Kind::kGlobal, .integer = global - kGlobals});
  }

  template <typename T>
  absl::Status Put() {
    T key = 0;
    if (!reader_.Read(&key)) return Truncated();
    if (Height() == 0) return Error("takes more values than there are");
    memo_[key] = stack_.back();
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Get() {
    T key = 0;
    if (!reader_.Read(&key)) return Truncated();
    const auto it = memo_.find(key);
    if (it == memo_.end()) return Error(absl::StrCat("recalls ", key, ", which was not kept"));
    stack_.push_back(it->second);
    return absl::OkStatus();
  }

  absl::Status Tuple(size_t count) {
    FERMATA_ASSIGN_OR_RETURN(std::vector<Ref> items, Pop(count));
    return Push({.kind = Kind::kTuple, .items = std::move(items)});
  }

  // TUPLE and SETITEMS, which take what lies above the last mark.
  absl::Status FromMark(uint8_t opcode) {
    if (marks_.empty()) return Error("goes back to a mark that is not there");
    const size_t count = Height();
    marks_.pop_back();
    return opcode == 't' ? Tuple(count) : SetItems(count);
  }

  absl::Status SetItems(size_t count) {
    FERMATA_ASSIGN_OR_RETURN(const std::vector<Ref> items, Pop(count));
    if (Height() == 0 || values_[stack_.back()].kind != Kind::kDict || count % 2 != 0) {
      return Error("sets items of what is no dict");
    }
    std::vector<Ref>& dict = values_[stack_.back()].items;
    dict.insert(dict.end(), items.begin(), items.end());
    return absl::OkStatus();
  }

  // An OrderedDict's attributes: state_dict() has `_metadata`, the versions of its modules.
  absl::Status Build() {
    FERMATA_ASSIGN_OR_RETURN(const std::vector<Ref> state, Pop(1));
    if (Height() > 0 && values_[stack_.back()].kind == Kind::kDict &&
        values_[state[0]].kind == Kind::kDict) {
      return absl::OkStatus();
    }
    return Error("sets attributes of what is no dict");
  }

  // ("storage", type, key, device, size)
  absl::Status LoadStorage() {
    FERMATA_ASSIGN_OR_RETURN(const std::vector<Ref> popped, Pop(1));
    const Value& id = values_[popped[0]];
    const bool fits =
        IsTuple(id, {Kind::kString, Kind::kGlobal, Kind::kString, Kind::kString, Kind::kInt}) &&
        Item(id, 0).text == "storage" && GlobalOf(Item(id, 1)).callable == Callable::kStorage &&
        Item(id, 4).integer >= 0;
    if (!fits) return Error("a persistent id that is not of a storage");
    return Push({.kind = Kind::kStorage,
                 .integer = Item(id, 4).integer,
                 .text = Item(id, 2).text,
                 .items = {id.items[1]}});
  }

  absl::Status Reduce() {
    FERMATA_ASSIGN_OR_RETURN(const std::vector<Ref> popped, Pop(2));
    const Value& callee = values_[popped[0]];
    const Value& arguments = values_[popped[1]];
    if (callee.kind != Kind::kGlobal) return Error("calls what can not be called");
    const Global& global = GlobalOf(callee);
    switch (global.callable) {
      case Callable::kOrderedDict:
        if (IsTuple(arguments, {})) return Push({.kind = Kind::kDict});
        break;
      case Callable::kRebuildTensor:
        // (storage, offset, shape, strides, requires_grad, backward_hooks)
        if (IsTuple(arguments, {Kind::kStorage, Kind::kInt, Kind::kTuple, Kind::kTuple, Kind::kBool,
                                Kind::kDict})) {
          return RebuildTensor(arguments);
        }
        break;
      case Callable::kRebuildParameter:
        // (tensor, requires_grad, backward_hooks)
        if (IsTuple(arguments, {Kind::kTensor, Kind::kBool, Kind::kDict})) {
          stack_.push_back(arguments.items[0]);
          return absl::OkStatus();
        }
        break;
      case Callable::kStorage:
        break;
    }
    return Error(absl::StrCat("calls ", std::string(global.name),
                              " with other arguments than "
                              "torch.save gives it"));
  }

  absl::Status RebuildTensor(const Value& arguments) {
    const Value& storage = Item(arguments, 0);
    PickledTensor tensor;
    tensor.dtype = GlobalOf(Item(storage, 0)).dtype;
    tensor.storage = storage.text;
    tensor.storage_size = storage.integer;
    tensor.offset = Item(arguments, 1).integer;
    const auto shape = Lengths(Item(arguments, 2));
    const auto strides = Lengths(Item(arguments, 3));
    if (!shape.has_value() || !strides.has_value() || shape->size() != strides->size() ||
        tensor.offset < 0) {
      return Error("a tensor with no sound offset, shape and strides");
    }
    tensor.shape = *shape;
    tensor.strides = *strides;
    tensors_.push_back(std::move(tensor));
    return Push({.kind = Kind::kTensor, .integer = static_cast<int64_t>(tensors_.size()) - 1});
  }

  absl::StatusOr<PickledTensors> Result(const Value& dict) const {
    if (dict.kind != Kind::kDict) return Error("holds no dict");
    PickledTensors result;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const Value& key = Item(dict, i);
      const Value& value = Item(dict, i + 1);
      if (key.kind != Kind::kString) return Error("the dict has a key that is not a string");
      if (value.kind != Kind::kTensor) {
        return Error(absl::StrCat("the dict's value for ", Quoted(key.text), " is not a tensor"));
      }
      if (!result.emplace(key.text, tensors_[value.integer]).second) {
        return Error(absl::StrCat("the dict's key ", Quoted(key.text), " stands twice"));
      }
    }
    return result;
  }

  const Value& Item(const Value& value, size_t i) const { return values_[value.items[i]]; }
  static const Global& GlobalOf(const Value& value) { return kGlobals[value.integer]; }

  bool IsTuple(const Value& value, std::initializer_list<Kind> kinds) const {
    return value.kind == Kind::kTuple &&
           std::ranges::equal(value.items, kinds, {}, [&](Ref item) { return values_[item].kind; });
  }

  // A tuple of extents or strides.
  std::optional<std::vector<int64_t>> Lengths(const Value& tuple) const {
    std::vector<int64_t> lengths;
    if (tuple.items.size() > kMaxRank) return std::nullopt;
    for (const Ref item : tuple.items) {
      const Value& value = values_[item];
      if (value.kind != Kind::kInt || value.integer < 0) return std::nullopt;
      lengths.push_back(value.integer);
    }
    return lengths;
  }

  ByteReader reader_;
  std::string source_;
  size_t at_ = 0;  // Of the operation.
  std::vector<Value> values_;
  std::vector<PickledTensor> tensors_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;  // Heights of the stack.
  std::unordered_map<uint32_t, Ref> memo_;
};

}  // namespace

absl::StatusOr<PickledTensors> ReadTorchPickle(std::span<const std::byte> pickle,
                                               std::string_view source) {
  if (pickle.size() > kMaxPickleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": a pickle of ",
                                                   pickle.size(), " bytes, the limit is ",
                                                   kMaxPickleBytes));
  }
  return Machine(pickle, source).Run();
}

}  // namespace fermata
