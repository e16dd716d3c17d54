#include "tests/torch_file.h"

#include "tests/gguf_file.h"

namespace fermata {
namespace {

// The part that an entry's own header and the directory share (APPNOTE.TXT 4.3.7, 4.3.12), from the
// version needed on.
std::string ZipHeader(const std::string& name, size_t size, size_t extra) {
  return Bytes<uint16_t>(20) + std::string(2 + 2 + 4 + 4, '\0') + Bytes<uint32_t>(size) +
         Bytes<uint32_t>(size) + Bytes<uint16_t>(name.size()) + Bytes<uint16_t>(extra);
}

std::string PickleTuple(const std::vector<int64_t>& values) {
  std::string pickle = "(";
  for (const int64_t value : values) pickle += PickleInt(value);
  return pickle + "t";
}

std::string OrderedDict() { return PickleGlobal("collections", "OrderedDict") + ")R"; }

}  // namespace

std::string ZipBytes(const ZipSpec& entries, bool zip64) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kHeader = 30;
  constexpr uint32_t kElsewhere = 0xffffffff;
  std::string file;
  std::string directory;
  for (const auto& [name, bytes] : entries) {
    const size_t begin = file.size();
    const size_t start = begin + kHeader + name.size() + 4;
    const size_t padding = (kAlignment - start % kAlignment) % kAlignment;
    file += "PK\3\4" + ZipHeader(name, bytes.size(), padding + 4) + name + "FB" +
            Bytes<uint16_t>(padding) + std::string(padding, 'Z') + bytes;
    std::string extra;
    if (zip64) {
      const std::string size = Bytes<uint64_t>(bytes.size());
      extra = "XX" + Bytes<uint16_t>(1) + "x" + Bytes<uint16_t>(1) + Bytes<uint16_t>(24) + size +
              size + Bytes<uint64_t>(begin);
    }
    directory += std::string("PK\1\2") + Bytes<uint16_t>(20) +
                 ZipHeader(name, zip64 ? kElsewhere : bytes.size(), extra.size()) +
                 std::string(2 + 2 + 2 + 4, '\0') +
                 Bytes<uint32_t>(zip64 ? kElsewhere : static_cast<uint32_t>(begin)) + name + extra;
  }
  const size_t begin = file.size();
  file += directory;
  if (zip64) {
    const std::string count = Bytes<uint64_t>(entries.size());
    const std::string record = "PK\6\6" + Bytes<uint64_t>(44) + std::string(2 + 2 + 4 + 4, '\0') +
                               count + count + Bytes<uint64_t>(directory.size()) +
                               Bytes<uint64_t>(begin);
    file += record + "PK\6\7" + Bytes<uint32_t>(0) + Bytes<uint64_t>(begin + directory.size()) +
            Bytes<uint32_t>(1);
  }
  const std::string count = Bytes<uint16_t>(zip64 ? 0xffff : entries.size());
  return file + "PK\5\6" + std::string(4, '\0') + count + count +
         Bytes<uint32_t>(zip64 ? kElsewhere : static_cast<uint32_t>(directory.size())) +
         Bytes<uint32_t>(zip64 ? kElsewhere : static_cast<uint32_t>(begin)) + std::string(2, '\0');
}

std::string PickleInt(int64_t value) {
  if (value >= 0 && value < 256) return "K" + Bytes<uint8_t>(value);
  if (value >= 0 && value < 65536) return "M" + Bytes<uint16_t>(value);
  if (value == static_cast<int32_t>(value)) return "J" + Bytes<int32_t>(value);
  return "\x8a\x08" + Bytes(value);
}

std::string PickleText(std::string_view text) {
  return "X" + Bytes<uint32_t>(text.size()) + std::string(text);
}

std::string PickleGlobal(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string PickleTensor(const TorchTensor& tensor) {
  std::string pickle =
      PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "((" + PickleText("storage") +
      PickleGlobal("torch", tensor.storage) + PickleText(tensor.key) + PickleText("cuda:0") +
      PickleInt(tensor.storage_size) + "tQ" + PickleInt(tensor.offset) + PickleTuple(tensor.shape) +
      PickleTuple(tensor.strides) + "\x89" + OrderedDict() + "tR";
  if (!tensor.parameter) return pickle;
  return PickleGlobal("torch._utils", "_rebuild_parameter") + pickle + "\x88" + OrderedDict() +
         "\x87R";
}

std::string PickleBytes(const std::vector<TorchTensor>& tensors, bool ordered) {
  std::string pickle = "\x80\x02" + (ordered ? OrderedDict() : "}") + "q" + Bytes<uint8_t>(0) + "(";
  uint32_t memo = 1;
  for (const TorchTensor& tensor : tensors) {
    pickle += PickleText(tensor.name) + "r" + Bytes(memo++) + PickleTensor(tensor);
  }
  pickle += "u";
  if (ordered) {
    // {"_metadata": {"": {"version": 1}}}
    pickle += "}" + PickleText("_metadata") + OrderedDict() + PickleText("") + "}" +
              PickleText("version") + PickleInt(1) + "sssb";
  }
  return pickle + ".";
}

std::string TorchBytes(std::string_view pickle, const ZipSpec& storages, bool zip64) {
  ZipSpec entries = {{"archive/data.pkl", std::string(pickle)}, {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) entries.push_back({"archive/data/" + key, bytes});
  entries.push_back({"archive/version", "3\n"});
  return ZipBytes(entries, zip64);
}

}  // namespace fermata
