// `dtrain checkpoint export`: the weights of a checkpoint as a file for other
// tools.
//
// Tied parameters are stored once in a checkpoint; other tools expect them
// under each of their names, so they are written again here. The checkpoint is
// verified first.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/checkpoints.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights_file.h"

namespace dtrain {
namespace {

constexpr char kSafetensors[] = "safetensors";
constexpr char kStateDict[] = "state_dict";
constexpr std::size_t kShownModels = 6;

struct ExportOptions : JsonOption {
  std::string source;
  bool latest = false;
  std::string to;
  std::string out;
  std::string model;
  bool force = false;
};

std::filesystem::path FileFor(const ExportOptions& options,
                              const CheckpointRow& checkpoint) {
  if (!options.out.empty()) return options.out;
  return checkpoint.uuid.substr(0, 8) +
         (options.to == kSafetensors ? ".safetensors" : ".pth");
}

// Adds tied tensors, which are saved once and listed in state.json.
void AddTies(const CheckpointFiles& files, std::vector<TensorBytes>& tensors) {
  const auto bytes = files[kStateName];
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto state = nlohmann::json::parse(text, text + bytes.size(), nullptr,
                                           /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("ties")) return;
  for (const auto& [name, first] : state["ties"].items()) {
    const auto found =
        first.is_string() ? std::ranges::find(tensors, first.get<std::string>(),
                                              &TensorBytes::name)
                          : tensors.end();
    if (found == tensors.end()) {
      throw Error(ErrorKind::kFailed,
                  "checkpoint " + files.path() + ": '" + kStateName +
                      "' was written by another version; use the version of "
                      "dtrain that wrote it");
    }
    TensorBytes tied = *found;
    tied.name = name;
    tensors.push_back(std::move(tied));
  }
}

// Returns the model names, which precede the first dot of each tensor name,
// abbreviated.
std::string ModelsOf(const std::vector<TensorBytes>& tensors) {
  std::set<std::string> names;
  for (const TensorBytes& tensor : tensors) {
    names.insert(tensor.name.substr(0, tensor.name.find('.')));
  }
  std::vector<std::string> shown(names.begin(), names.end());
  if (shown.size() > kShownModels) {
    shown.resize(kShownModels);
    shown.emplace_back("...");
  }
  return Join(shown, ", ");
}

// Keeps only the tensors of this model, without the prefix of their names.
void KeepModel(const std::string& model, std::vector<TensorBytes>& tensors) {
  const std::string prefix = model + ".";
  std::vector<TensorBytes> kept;
  for (const TensorBytes& tensor : tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    kept.push_back(tensor);
    kept.back().name.erase(0, prefix.size());
  }
  if (kept.empty()) {
    throw Error(ErrorKind::kNotFound,
                "--model: the checkpoint has no tensors of a model '" + model +
                    "'; their names begin with " + ModelsOf(tensors) +
                    "; omit --model to export all of them");
  }
  tensors = std::move(kept);
}

std::vector<TensorBytes> TensorsOf(const CheckpointFiles& files,
                                   const std::string& model) {
  const std::filesystem::path own =
      std::filesystem::path(files.path()) / kProgramFiles;
  if (std::filesystem::is_directory(own)) {
    throw Error(ErrorKind::kFailed,
                "checkpoint " + files.path() +
                    ": was written by a command, and only that command can "
                    "read it; its files are in " +
                    own.string());
  }
  if (!files.Has(kWeightsName)) {
    throw Error(ErrorKind::kFailed, "checkpoint " + files.path() +
                                        ": has no '" + kWeightsName +
                                        "', so there are no weights to export");
  }
  auto tensors =
      ReadSafetensors(files[kWeightsName], files.path() + "/" + kWeightsName);
  AddTies(files, tensors);
  if (!model.empty()) KeepModel(model, tensors);
  return tensors;
}

void WriteTensors(const std::vector<TensorBytes>& tensors,
                  const std::string& format, NewFile& file) {
  if (format == kStateDict) {
    WriteStateDict(
        tensors, [&](std::span<const std::byte> bytes) { file.Write(bytes); });
    return;
  }
  const std::string header = SafetensorsHeader(tensors);
  file.Write(std::as_bytes(std::span(header)));
  for (const TensorBytes& tensor : tensors) file.Write(tensor.bytes);
}

int Export(const ExportOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const CheckpointRow checkpoint =
      FindSourceCheckpoint(store, options.source, options.latest);
  const std::filesystem::path path = FileFor(options, checkpoint);
  // Refuses a bad name before it reads the weights.
  NewFile file(path, options.force);
  const CheckpointFiles files = ReadCheckpoint(store, checkpoint);
  const auto tensors = TensorsOf(files, options.model);
  WriteTensors(tensors, options.to, file);
  file.Keep();
  if (options.json) {
    PrintJson({{"checkpoint", checkpoint.uuid},
               {"file", std::filesystem::absolute(path).string()},
               {"tensors", tensors.size()},
               {"bytes", file.bytes()},
               {"format", options.to}});
  } else {
    Say(globals, "wrote " + path.string() + ": " +
                     std::to_string(tensors.size()) + " tensors, " +
                     FormatBytes(file.bytes()));
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpCheckpointExport(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  AddOption(app, "CHECKPOINT", options->source,
            "First characters of a checkpoint ID, or a trial (3.7) or "
            "experiment (3) for its best checkpoint")
      .Required();
  AddFlag(app, "--latest", options->latest,
          "Export the latest checkpoint of the trial, not the best");
  AddOption(app, "--to", options->to,
            "File format: safetensors, or state_dict for torch.load")
      .TypeName("FORMAT")
      .OneOf({kSafetensors, kStateDict})
      .Required();
  AddOption(app, "--out", options->out,
            "Output file (default: first 8 characters of the ID and "
            ".safetensors or .pth)")
      .TypeName("FILE")
      .IsPath();
  AddOption(app, "--model", options->model,
            "Export only the model that the trial added under NAME")
      .TypeName("NAME");
  AddFlag(app, "--force", options->force, "Replace an existing file");
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone},
                 {kExitFailed,
                  "the checkpoint is damaged, or the file cannot be written"},
                 {kExitUsage},
                 {kExitNotFound},
                 {kExitStore}},
       .examples = {{"Export for PyTorch: torch.load(\"0a1b2c3d.pth\", "
                     "weights_only=True)",
                     "dtrain checkpoint export 0a1b2c3d --to state_dict"},
                    {"Export to a named safetensors file",
                     "dtrain checkpoint export 0a1b2c3d --to safetensors --out "
                     "net.safetensors"}}});
  return RunWith(Export, options);
}

}  // namespace dtrain
