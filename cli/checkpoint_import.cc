// `dtrain checkpoint import`: weights of other tools as a checkpoint.
//
// Only a trial knows the names and shapes of its model. So the weights are
// loaded by a process of the trial, which writes them as a checkpoint of its
// own; that checkpoint is then recorded as the only one of a finished
// experiment. Without a configuration the weights are only converted to
// safetensors.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/provenance.h"
#include "engine/app/record_experiment.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights_file.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/plugin/model_library.h"
#include "engine/process/local_launcher.h"
#include "engine/report/format.h"
#include "engine/run/evaluation.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/file_tree.h"
#include "searchers/hparam_space.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct ImportOptions : JsonOption {
  std::string file;
  std::string config;
  std::string context;
  std::vector<std::string> overrides;
  std::string out;
  std::string key;
  std::string prefix;
  bool force = false;
};

// The tensors of FILE that --key and --prefix select.
struct SelectedWeights {
  WeightsFile file;
  std::string prefix;  // of the names, removed
  std::vector<TensorBytes> tensors = {};
  std::size_t left_out = 0;  // tensors without the prefix
};

SelectedWeights SelectWeights(const ImportOptions& options) {
  SelectedWeights selected{.file = OpenWeights(options.file, options.key),
                           .prefix = options.prefix};
  std::string& prefix = selected.prefix;
  const bool ends_a_word =
      !prefix.empty() &&
      std::isalnum(static_cast<unsigned char>(prefix.back())) != 0;
  if (ends_a_word) prefix += '.';  // encoder must not match encoder2.weight
  for (TensorBytes tensor : selected.file.tensors()) {
    if (!tensor.name.starts_with(prefix) || tensor.name == prefix) continue;
    tensor.name.erase(0, prefix.size());
    selected.tensors.push_back(std::move(tensor));
  }
  const std::vector<TensorBytes>& all = selected.file.tensors();
  selected.left_out = all.size() - selected.tensors.size();
  if (selected.tensors.empty() && !all.empty()) {
    throw Error(ErrorKind::kFailed,
                EscapeForTerminal(options.file) +
                    ": no tensor's name begins "
                    "with '" +
                    EscapeForTerminal(prefix) + "'; the first is '" +
                    EscapeForTerminal(all.front().name) + "'");
  }
  return selected;
}

// Returns what a message adds about the rest of FILE.
std::string FormatRest(const SelectedWeights& selected) {
  std::string rest;
  if (selected.left_out > 0) {
    rest = "; " + std::to_string(selected.left_out) +
           " without the prefix were left out";
  }
  if (const auto others = selected.file.other_keys(); !others.empty()) {
    rest += "; FILE also has weights under " +
            EscapeForTerminal(Join(others, ", ")) + " (--key)";
  }
  return rest;
}

void WriteSafetensors(const std::vector<TensorBytes>& tensors, NewFile& file) {
  const std::string header = SafetensorsHeader(tensors);
  file.Write(std::as_bytes(std::span(header)));
  for (const TensorBytes& tensor : tensors) file.Write(tensor.bytes);
  file.Keep();
}

int Convert(const ImportOptions& options, const GlobalOptions& globals) {
  const SelectedWeights weights = SelectWeights(options);
  std::vector<TensorBytes> tensors = weights.tensors;
  const std::string prefix = weights.prefix + StripPrefixes(tensors);
  const fs::path out =
      options.out.empty()
          ? fs::path(options.file).stem().string() + ".safetensors"
          : options.out;
  NewFile file(out, options.force);
  WriteSafetensors(tensors, file);
  if (options.json) {
    PrintJson({{"file", fs::absolute(out).string()},
               {"tensors", tensors.size()},
               {"bytes", file.bytes()},
               {"removed_prefix", prefix},
               {"left_out", weights.left_out},
               {"other_keys", weights.file.other_keys()}});
  } else {
    PrintNotice(globals, "wrote " + out.string() + ": " +
                             CountText(tensors.size(), "tensor") + ", " +
                             FormatBytes(file.bytes()) +
                             (prefix.empty() ? ""
                                             : "; removed the prefix '" +
                                                   EscapeForTerminal(prefix) +
                                                   "' from their names") +
                             FormatRest(weights));
  }
  return kExitDone;
}

// A configured trial that has not been trained.
struct NewTrial {
  ExperimentConfig config;
  std::string text;
  fs::path context;
  Create create;
  std::string library;
};

NewTrial MakeNewTrial(const ImportOptions& options,
                      const GlobalOptions& globals) {
  NewTrial trial{.text = ReadConfigFile(options.config),
                 .context = ContextDirectory(options.config, options.context)};
  ConfigResult result =
      ParseConfigText(trial.text, options.config, options.overrides,
                      trial.context, Checks::kTrial);
  PrintDiagnostics(result.diagnostics, globals);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                options.config + ": " + refusal + "; nothing was imported");
  }
  trial.config = *std::move(result.config);
  if (!std::holds_alternative<std::string>(trial.config.entrypoint)) {
    throw Error(ErrorKind::kUsage,
                options.config +
                    ": entrypoint: a command writes and reads its own "
                    "checkpoints; use a model");
  }
  for (const auto& [name, space] : trial.config.hyperparameters.items()) {
    if (IsConstant(nlohmann::json::object({{name, space}}))) continue;
    throw Error(ErrorKind::kUsage,
                options.config + ": hyperparameters." + name +
                    ": is searched; set the value that the weights were "
                    "trained with: --set hyperparameters." +
                    name + "=VALUE");
  }
  CheckEntrypoint(options.config, trial.config, trial.context);
  if (auto own = CompileOwnModel(trial.config, trial.context, globals)) {
    trial.library = own->file.string();
  }
  const auto searcher = MakeSearcher({.name = "single", .max_length = 1},
                                     trial.config.hyperparameters,
                                     trial.config.experiment_seed.value_or(0));
  trial.create = std::get<Create>(searcher->Handle(Started{}).front());
  return trial;
}

// Loads the weights into the trial, and returns the checkpoint that it wrote in
// `scratch`. Names and shapes must match its model.
CheckpointFiles LoadIntoTrial(const NewTrial& trial, const fs::path& weights,
                              const fs::path& scratch) {
  ExperimentConfig config = trial.config;
  config.searcher = SearcherConfig{.name = "single", .max_trials = 1};
  const double slots_per_trial = config.resources.slots_per_trial;
  config.resources =
      ResourcesConfig{.slots_per_trial = std::min(slots_per_trial, 1.0),
                      .slots = config.resources.slots};  // one process
  SlotPlan slots = PlanExperimentSlots(config);
  slots.count = 1;
  const TrialSpec spec{.id = {1, 1},
                       .task = Task::kLoad,
                       .entrypoint = std::get<std::string>(config.entrypoint),
                       .library = trial.library,
                       .hparams = trial.create.hparams,
                       .data = config.data,
                       .seed = trial.create.seed,
                       .threads = static_cast<int>(slots.threads),
                       .directory = scratch.string(),
                       .warm_start = fs::absolute(weights).string(),
                       .settings = config.training};
  const auto launcher = MakeLocalLauncher(
      {.experiment = 1,
       .slots = slots,
       .layout = StoreLayout(scratch),
       .host = FindTrialHost(),
       .environment = config.environment.For(!slots.gpus.empty())});
  const Evaluation loaded =
      RunEvaluation(*launcher, spec, [](const Progress&) {});
  if (loaded.signal != 0) {
    throw Error(ErrorKind::kFailed, "interrupted; nothing was imported");
  }
  return CheckpointFiles::Read((scratch / kImportedDirectory).string());
}

WrittenCheckpoint WriteCopy(const CheckpointFiles& files,
                            const fs::path& directory) {
  CheckpointWriter writer(directory.string());
  for (const char* name : {kWeightsName, kStateName}) {
    writer.Write(name, std::vector<std::span<const std::byte>>{files[name]});
  }
  return writer.Commit();
}

// The types of `tensors`, sorted.
std::set<std::string> ListTypes(const std::vector<TensorBytes>& tensors) {
  std::set<std::string> types;
  for (const TensorBytes& tensor : tensors) types.insert(tensor.dtype);
  return types;
}

// Returns the types in FILE that the model does not have: these were cast.
std::vector<std::string> CastTypes(const std::vector<TensorBytes>& weights,
                                   const CheckpointFiles& imported) {
  std::vector<std::string> cast;
  std::ranges::set_difference(
      ListTypes(weights),
      ListTypes(ReadSafetensors(imported[kWeightsName], kWeightsName)),
      std::back_inserter(cast));
  return cast;
}

// Records an experiment with one trial that has already ended.
TrialId Record(const ImportOptions& options, NewTrial& trial, Store& store,
               const GlobalOptions& globals) {
  nlohmann::json provenance =
      Provenance(RecordedArgv(globals.argv), trial.context, {});
  provenance["imported_from"] =
      ToValidUtf8(fs::absolute(options.file).string());
  const std::int64_t id = RecordExperiment(
      store, trial.config, RecordedYaml(trial.text, trial.config), provenance,
      {.context =
           FindContext(trial.config, trial.context, options.config, globals)});
  return {id, 1};
}

void RecordCheckpoint(const TrialId id, const NewTrial& trial,
                      const std::string& uuid, const WrittenCheckpoint& written,
                      Store& store) {
  const Timestamp now = Clock::System().now();
  store.Write([&](StoreWriter& writer) {
    writer.SetExperimentState(id.experiment, State::kRunning, now);
    writer.AddTrial({.id = id,
                     .request_id = trial.create.request_id,
                     .hparams = trial.create.hparams,
                     .seed = trial.create.seed,
                     .created = now});
    writer.AddCheckpoint({.uuid = uuid,
                          .trial = id,
                          .state = "COMPLETED",
                          .bytes = written.bytes,
                          .files = written.files,
                          .storage = trial.config.checkpoints.path,
                          .time = now});
    writer.SetTrialState(id, State::kCompleted, now, "imported");
    writer.SetExperimentProgress(id.experiment, 1);
    writer.SetExperimentState(id.experiment, State::kCompleted, now);
  });
}

// Loads only the selected weights, like LoadIntoTrial.
CheckpointFiles LoadSelected(const ImportOptions& options,
                             const NewTrial& trial,
                             const SelectedWeights& weights,
                             const fs::path& scratch) {
  if (options.key.empty() && options.prefix.empty()) {
    return LoadIntoTrial(trial, options.file, scratch);
  }
  const fs::path selected = scratch / "selected.safetensors";
  NewFile file(selected, /*replace=*/false);
  WriteSafetensors(weights.tensors, file);
  try {
    return LoadIntoTrial(trial, selected, scratch);
  } catch (const Error& error) {
    // The trial names the file that it was given.
    std::string message = error.what();
    const std::string name = EscapeForTerminal(selected.string());
    if (const auto at = message.find(name); at != message.npos) {
      message.replace(at, name.size(), EscapeForTerminal(options.file));
    }
    throw Error(error.kind(), message);
  }
}

int ImportInto(const ImportOptions& options, const GlobalOptions& globals) {
  const SelectedWeights weights = SelectWeights(options);
  NewTrial trial = MakeNewTrial(options, globals);
  RequireStorage(trial.config, globals);
  const ScratchDirectory scratch;
  const CheckpointFiles files =
      LoadSelected(options, trial, weights, scratch.path());
  const std::vector<std::string> cast = CastTypes(weights.tensors, files);

  Store store = OpenStoreForWriting(FindStore(globals), globals);
  const TrialId id = Record(options, trial, store, globals);
  const std::string uuid = RandomUuid();
  MakeDurableDirectories(store.layout().Trial(id));
  const WrittenCheckpoint written = WriteCopy(
      files,
      store.CheckpointDirectory(id, trial.config.checkpoints.path) / uuid);
  RecordCheckpoint(id, trial, uuid, written, store);
  const std::size_t count = weights.tensors.size();
  if (options.json) {
    PrintJson({{"experiment", id.experiment},
               {"trial", ToString(id)},
               {"checkpoint", uuid},
               {"tensors", count},
               {"bytes", written.bytes},
               {"cast_from", cast},
               {"left_out", weights.left_out},
               {"other_keys", weights.file.other_keys()}});
  } else {
    PrintNotice(globals,
                "imported " + CountText(count, "tensor") +
                    (cast.empty() ? ""
                                  : " (cast from " + Join(cast, ", ") +
                                        " to the model's types)") +
                    FormatRest(weights) + " as checkpoint " + uuid +
                    " of trial " + ToString(id) + "; continue with " +
                    CommandFor(globals, "evaluate " + uuid.substr(0, 8)) +
                    " or " +
                    CommandFor(globals, "continue " + uuid.substr(0, 8)));
  }
  return kExitDone;
}

int Import(const ImportOptions& options, const GlobalOptions& globals) {
  if (!options.config.empty() && (!options.out.empty() || options.force)) {
    throw Error(ErrorKind::kUsage,
                "checkpoint import: --out and --force cannot be combined with "
                "CONFIG, which imports the weights into the store");
  }
  return options.config.empty() ? Convert(options, globals)
                                : ImportInto(options, globals);
}

}  // namespace

CommandRun SetUpCheckpointImport(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  AddOption(app, "FILE", options->file, "Weights file, .pth or .safetensors")
      .Required()
      .IsPath();
  AddOption(app, "CONFIG", options->config,
            "Experiment YAML of the model; without it, FILE is only converted "
            "to safetensors")
      .IsPath();
  AddOption(app, "CONTEXT", options->context,
            "Directory of the model's files (default: the directory of CONFIG)")
      .IsPath();
  AddOption(app, "--set", options->overrides,
            "Override a key of CONFIG (repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach()
      .Completes(ValueKind::kKey);
  AddOption(
      app, "--out", options->out,
      "Output file of a conversion (default: name of FILE with .safetensors)")
      .TypeName("FILE")
      .IsPath();
  AddOption(app, "--key", options->key,
            "Key of the weights in FILE, such as state_dict_ema")
      .TypeName("KEY");
  AddOption(app, "--prefix", options->prefix,
            "Take only tensors with this prefix, and remove it")
      .TypeName("PREFIX");
  AddFlag(app, "--force", options->force, "Replace an existing output file");
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone},
                 {kExitFailed,
                  "the weights do not fit the model, or FILE is damaged"},
                 {kExitUsage},
                 {kExitNotFound},
                 {kExitStore},
                 {kExitResources}},
       .examples = {{"Import weights as a checkpoint of the model in a YAML",
                     "dtrain checkpoint import resnet18.pth resnet18.yaml"},
                    {"Convert to safetensors without importing",
                     "dtrain checkpoint import resnet18.pth --out "
                     "resnet18.safetensors"}}});
  return RunWith(Import, options);
}

}  // namespace dtrain
