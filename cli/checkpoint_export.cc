// `dtrain checkpoint export`: the weights of a checkpoint as a file for other
// tools, or a copy of its files.
//
// Tied parameters are stored once in a checkpoint; other tools expect them
// under each of their names, so they are written again here. The checkpoint is
// verified first.

#include <algorithm>
#include <filesystem>
#include <iostream>
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
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights_file.h"

namespace dtrain {
namespace {

constexpr char kSafetensors[] = "safetensors";
constexpr char kStateDict[] = "state_dict";
constexpr char kFiles[] = "files";
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
  if (options.to == kFiles) {
    return std::filesystem::path("checkpoints") / checkpoint.uuid;
  }
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
std::string ListModelNames(const std::vector<TensorBytes>& tensors) {
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
                    "'; their names begin with " + ListModelNames(tensors) +
                    "; omit --model to export all of them");
  }
  tensors = std::move(kept);
}

std::vector<TensorBytes> ReadTensors(const CheckpointFiles& files,
                                     const std::string& model) {
  const std::filesystem::path own =
      std::filesystem::path(files.path()) / kProgramFiles;
  if (std::filesystem::is_directory(own)) {
    throw Error(ErrorKind::kFailed,
                "checkpoint " + files.path() +
                    ": was written by a program, and only that program can "
                    "read it; its files are in " +
                    own.string() + "; --to files copies them");
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

// A copy of a checkpoint's files.
struct CopiedFiles {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
};

// Copies the files `names` into a new directory, with a manifest of their
// checksums. Of a program's checkpoint, only the files that the program wrote.
CopiedFiles CopyTo(const std::filesystem::path& directory,
                   const CheckpointFiles& files,
                   const std::vector<std::string>& names) {
  const std::string own = std::string(kProgramFiles) + "/";
  const bool is_program = std::ranges::any_of(
      names, [&](const std::string& name) { return name.starts_with(own); });
  CopiedFiles copied;
  CheckpointWriter writer(directory.string());
  for (const std::string& name : names) {
    if (name == kManifestName || (is_program && !name.starts_with(own))) {
      continue;
    }
    const std::span<const std::byte> bytes = files[name];
    writer.Write(is_program ? name.substr(own.size()) : name,
                 std::span(&bytes, 1));
    ++copied.files;
    copied.bytes += static_cast<std::int64_t>(bytes.size());
  }
  static_cast<void>(writer.Commit());
  return copied;
}

int ExportFiles(const ExportOptions& options, const Store& store,
                const CheckpointRow& checkpoint, const GlobalOptions& globals) {
  auto path = std::filesystem::absolute(FileFor(options, checkpoint))
                  .lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  std::error_code ignored;
  if (std::filesystem::symlink_status(path, ignored).type() !=
      std::filesystem::file_type::not_found) {
    throw Error(ErrorKind::kUsage,
                "--out: '" + path.string() +
                    "' already exists and is not replaced; choose a new "
                    "directory");
  }
  const CheckpointFiles files = ReadCheckpoint(store, checkpoint);
  std::vector<std::string> names;
  for (const auto& [name, sha256] : checkpoint.files.items()) {
    names.push_back(name);
  }
  const CopiedFiles copied = CopyTo(path, files, names);
  if (options.json) {
    PrintJson({{"checkpoint", checkpoint.uuid},
               {"file", path.string()},
               {"files", copied.files},
               {"bytes", copied.bytes},
               {"format", options.to}});
  } else {
    std::cout << EscapeForTerminal(path.string()) << '\n';
    PrintNotice(globals, "copied checkpoint " + checkpoint.uuid + ": " +
                             CountText(copied.files, "file") + ", " +
                             FormatBytes(copied.bytes));
  }
  return kExitDone;
}

int Export(const ExportOptions& options, const GlobalOptions& globals) {
  if (options.to == kFiles && !options.model.empty()) {
    throw Error(ErrorKind::kUsage,
                "--model: cannot be combined with --to files, which copies "
                "all files");
  }
  const Store store = OpenStore(globals);
  const CheckpointRow checkpoint =
      FindSourceCheckpoint(store, options.source, options.latest);
  if (options.to == kFiles) {
    return ExportFiles(options, store, checkpoint, globals);
  }
  const std::filesystem::path path = FileFor(options, checkpoint);
  // Refuses a bad name before it reads the weights.
  NewFile file(path, options.force);
  const CheckpointFiles files = ReadCheckpoint(store, checkpoint);
  const auto tensors = ReadTensors(files, options.model);
  WriteTensors(tensors, options.to, file);
  file.Keep();
  if (options.json) {
    PrintJson({{"checkpoint", checkpoint.uuid},
               {"file", std::filesystem::absolute(path).string()},
               {"tensors", tensors.size()},
               {"bytes", file.bytes()},
               {"format", options.to}});
  } else {
    PrintNotice(globals, "wrote " + path.string() + ": " +
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
            "Format: safetensors, state_dict for torch.load, or files for a "
            "directory with a copy of all files")
      .TypeName("FORMAT")
      .OneOf({kSafetensors, kStateDict, kFiles})
      .Required();
  AddOption(app, "--out", options->out,
            "Output file (default: first 8 characters of the ID and "
            ".safetensors or .pth; of files: directory checkpoints/ID)")
      .TypeName("FILE")
      .IsPath();
  AddOption(
      app, "--model", options->model,
      "Export only the model that the trial added under NAME, without the "
      "prefix NAME. of its tensors")
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
