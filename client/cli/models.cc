// What can be told of a model's files with no server: `fermata models inspect` and `verify`.

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "engine/model/model.h"
#include "engine/model/self_check.h"
#include "engine/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace fermata::cli {
namespace {

using Json = nlohmann::ordered_json;

// Forms differ by rounding alone, which is far below this share of the largest logit.
constexpr double kFormTolerance = 1e-3;

struct Loaded {
  std::unique_ptr<Model> model;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer;  // Of weights alone much can be told too.
};

absl::StatusOr<Loaded> Load(const std::string& path, const Io& io) {
  Progress terminal(io.err, io.err_is_terminal);
  auto model = Model::Load(
      path, {.progress = [&terminal](const LoadProgress& progress) {
        const auto [phase, tensors_done, tensors, bytes_done, bytes] = progress;
        terminal.Show(
            progress.share(),
            absl::StrFormat("%s: %d of %d tensors, %d of %d MB", std::string(LoadPhaseName(phase)),
                            tensors_done, tensors, bytes_done / 1'000'000, bytes / 1'000'000));
      }});
  if (!model.ok()) return model.status();
  auto tokenizer = Tokenizer::Load(path, (*model)->info().vocab_size);
  return Loaded{*std::move(model), std::move(tokenizer)};
}

// One layer's blocks as "attn.S 3×64×64, ffn.shift 192", for the first layer that has such ones, and
// how many layers do.
std::vector<std::string> StateLines(const Model& model) {
  std::vector<std::pair<std::string, int64_t>> kinds;  // In the order of their first layers.
  std::vector<std::string> layers(model.info().num_layers);
  for (const StateBlockInfo& block : model.state_blocks()) {
    const size_t dot = block.name.find('.', std::string_view("layers.").size());
    const int64_t layer = std::stoll(block.name.substr(7, dot - 7));
    absl::StrAppend(&layers[layer], layers[layer].empty() ? "" : ", ", block.name.substr(dot + 1),
                    " ", absl::StrJoin(block.shape, "×"));
  }
  for (const std::string& layer : layers) {
    const std::string& kind = layer.empty() ? "no state" : layer;
    const auto same = [&kind](const auto& each) { return each.first == kind; };
    const auto it = std::ranges::find_if(kinds, same);
    if (it == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++it->second;
    }
  }
  std::vector<std::string> lines;
  lines.reserve(kinds.size());
  for (const auto& [kind, count] : kinds) lines.push_back(absl::StrCat(count, " × ", kind));
  return lines;
}

std::string TypeCounts(const ModelInfo& info) {
  return absl::StrJoin(info.dtypes, ", ", [](std::string* out, const auto& each) {
    absl::StrAppend(out, each.second, " ", each.first);
  });
}

std::string Text(const Loaded& loaded) {
  const ModelInfo& info = loaded.model->info();
  std::string out;
  const auto line = [&out](std::string_view what, const auto&... parts) {
    absl::StrAppendFormat(&out, "%-15s", std::string(what));
    absl::StrAppend(&out, parts..., "\n");
  };
  line("model", info.name);
  line("family", info.family, info.layout.empty() ? "" : absl::StrCat(", as ", info.layout));
  line("fingerprint", info.fingerprint);
  line("parameters", Grouped(info.parameters));
  line("tensors", TypeCounts(info));
  line("layers", info.num_layers, " of ", Grouped(info.hidden_size));
  line("vocabulary", Grouped(info.vocab_size));
  if (loaded.tokenizer.ok()) {
    const Tokenizer& tokenizer = **loaded.tokenizer;
    line("tokenizer", std::string(tokenizer.kind()), ", ", Grouped(tokenizer.vocab_size()),
         " tokens");
  } else {
    line("tokenizer", "none: ", loaded.tokenizer.status().message());
  }
  line("end of text", info.eos_token_ids.empty() ? "none" : absl::StrJoin(info.eos_token_ids, " "));
  line("state", Grouped(info.state_bytes), " bytes a session",
       info.fixed_size_state ? ", at every position" : "");
  for (const std::string& layers : StateLines(*loaded.model)) line("  layers", layers);
  if (!info.fixed_size_state) line("  and", "a KV cache that grows with every token: no sessions");
  line("KV equivalent", Grouped(info.kv_equivalent_bytes_per_token),
       " bytes for each token in float32");
  line("break-even", Grouped(info.break_even_tokens()),
       " tokens: from there on the KV cache would be the larger one");
  for (const std::string& remark : info.remarks) line("remark", remark);
  return out;
}

Json ToJson(const Loaded& loaded) {
  const ModelInfo& info = loaded.model->info();
  Json blocks = Json::array();
  for (const StateBlockInfo& block : loaded.model->state_blocks()) {
    blocks.push_back({{"name", block.name}, {"shape", block.shape}});
  }
  Json tokenizer = nullptr;
  if (loaded.tokenizer.ok()) {
    tokenizer = {{"kind", std::string((*loaded.tokenizer)->kind())},
                 {"vocab_size", (*loaded.tokenizer)->vocab_size()}};
  }
  return {{"name", info.name},
          {"family", info.family},
          {"layout", info.layout},
          {"fingerprint", info.fingerprint},
          {"parameters", info.parameters},
          {"tensors", info.dtypes},
          {"num_layers", info.num_layers},
          {"hidden_size", info.hidden_size},
          {"vocab_size", info.vocab_size},
          {"tokenizer", tokenizer},
          {"bos_token_ids", info.bos_token_ids},
          {"eos_token_ids", info.eos_token_ids},
          {"state_bytes", info.state_bytes},
          {"fixed_size_state", info.fixed_size_state},
          {"kv_equivalent_bytes_per_token", info.kv_equivalent_bytes_per_token},
          {"break_even_tokens", info.break_even_tokens()},
          {"state_blocks", blocks},
          {"remarks", info.remarks}};
}

struct Check {
  std::string what;
  bool ok = false;
  std::string found;
};

std::vector<Check> CheckForms(const Model& model, const VerifyModelCommand& command) {
  std::vector<Check> checks;
  for (const FormDifference& each : CompareForms(model, command.tokens, command.seed)) {
    checks.push_back({absl::StrCat(std::string(FormName(each.form)), " form, ", command.tokens,
                                   " random tokens"),
                      each.largest <= kFormTolerance,
                      absl::StrFormat("differs by %.1e of the largest logit", each.largest)});
  }
  return checks;
}

Check CheckText(const Tokenizer& tokenizer, const std::string& name, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text, /*parse_special=*/false);
  IncrementalDecoder decoder(tokenizer, TextPlace::kStart);
  std::string streamed;
  for (const int32_t id : ids) streamed += decoder.Append(id);
  streamed += decoder.Finish();
  const std::string whole = tokenizer.Decode(ids, /*keep_special=*/false);
  Check check{absl::StrCat("tokenizer, ", name), true,
              absl::StrCat(ids.size(), " tokens and back")};
  if (whole != text) check = {check.what, false, absl::StrCat("comes back as ", whole)};
  if (streamed != whole) check = {check.what, false, absl::StrCat("streams as ", streamed)};
  return check;
}

// Composed characters only: published normalisers compose what is not.
std::vector<Check> CheckTokenizer(const absl::StatusOr<std::unique_ptr<Tokenizer>>& tokenizer) {
  if (!tokenizer.ok()) return {{"tokenizer", false, std::string(tokenizer.status().message())}};
  const std::pair<const char*, const char*> texts[] = {
      {"English", "The quick brown fox can't jump over 1,234.5 lazy dogs!"},
      {"white space", "a  b\n\n\tc   \r\n    d"},
      {"code", "for (int i = 0; i < n; ++i) { x[i] += \"%d\\n\"; }"},
      {"Latin and Greek", "Größe, café, naïve; αβγ λόγος"},
      {"Cyrillic, Arabic, Hindi", "Привет мир — مرحبا — नमस्ते"},
      {"Chinese, Japanese, Korean", "你好，世界。こんにちは、世界！안녕하세요"},
      {"emoji", "👩‍🚀🇺🇳👍🏽 ok"},
  };
  std::vector<Check> checks;
  for (const auto& [name, text] : texts) checks.push_back(CheckText(**tokenizer, name, text));
  return checks;
}

}  // namespace

int RunInspectModel(const CommonOptions& common, const InspectModelCommand& command, const Io& io) {
  const absl::StatusOr<Loaded> loaded = Load(command.directory, io);
  if (!loaded.ok()) return Fail(common, loaded.status(), io);
  io.out << (common.json ? ToJson(*loaded).dump() + "\n" : Text(*loaded));
  return kExitOk;
}

int RunVerifyModel(const CommonOptions& common, const VerifyModelCommand& command, const Io& io) {
  const absl::StatusOr<Loaded> loaded = Load(command.directory, io);
  if (!loaded.ok()) return Fail(common, loaded.status(), io);
  std::vector<Check> checks = {
      {"weights", true,
       absl::StrCat(Grouped(loaded->model->info().parameters), " numbers, all finite")}};
  for (Check& check : CheckForms(*loaded->model, command)) checks.push_back(std::move(check));
  for (Check& check : CheckTokenizer(loaded->tokenizer)) checks.push_back(std::move(check));
  bool ok = true;
  for (const Check& check : checks) {
    ok = ok && check.ok;
    if (common.json) {
      const Json line = {{"check", check.what}, {"ok", check.ok}, {"found", check.found}};
      io.out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    } else {
      io.out << absl::StrFormat("%-7s%-45s%s\n", check.ok ? "ok" : "WRONG", check.what,
                                check.found);
    }
  }
  return ok ? kExitOk : kExitFailed;
}

}  // namespace fermata::cli
