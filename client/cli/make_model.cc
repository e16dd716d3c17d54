// `fermata models make`: a model of random weights.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/make/random_model.h"
#include "nlohmann/json.hpp"

namespace fermata::cli {
namespace {

constexpr std::pair<std::string_view, make::DType> kDTypes[] = {
    {"f32", make::DType::kF32}, {"bf16", make::DType::kBf16}, {"f16", make::DType::kF16}};

// The words of `command` are those that its flags allow.
make::RandomModelOptions OptionsOf(const MakeModelCommand& command) {
  make::RandomModelOptions options;
  options.directory = command.directory;
  options.family = make::FindFamily(command.family);
  options.shape = make::FindPreset(command.size)->shape;
  options.shape.num_layers *= options.family->layers_factor;
  options.shape.num_layers = command.layers.value_or(options.shape.num_layers);
  options.shape.hidden_size = command.hidden_size.value_or(options.shape.hidden_size);
  options.shape.vocab_size = command.vocab_size.value_or(options.shape.vocab_size);
  for (const auto& [name, dtype] : kDTypes) {
    if (name == command.dtype) options.dtype = dtype;
  }
  options.seed = command.seed;
  return options;
}

}  // namespace

int RunMakeModel(const CommonOptions& common, const MakeModelCommand& command, const Io& io) {
  Progress progress(io.err, io.err_is_terminal);
  const auto model =
      make::WriteRandomModel(OptionsOf(command), [&progress](int64_t bytes, int64_t of_bytes) {
        progress.Show(static_cast<double>(bytes) / static_cast<double>(of_bytes),
                      absl::StrFormat("%d of %d MB", bytes / 1'000'000, of_bytes / 1'000'000));
      });
  if (!model.ok()) return Fail(common, model.status(), io);
  if (common.json) {
    io.out << nlohmann::ordered_json{{"directory", command.directory},
                                     {"parameters", model->parameters},
                                     {"tensors", model->tensors},
                                     {"bytes", model->bytes}}
                  .dump()
           << "\n";
  } else {
    io.out << command.directory << ": " << command.family << ", " << Grouped(model->parameters)
           << " parameters in " << Grouped(model->tensors) << " tensors, " << Grouped(model->bytes)
           << " bytes\n";
  }
  return kExitOk;
}

}  // namespace fermata::cli
