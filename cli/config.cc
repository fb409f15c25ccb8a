#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/record_experiment.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/context/context_list.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

struct ConfigOptions : JsonOption {
  std::string target;
  bool original = false;
  std::string export_to;
};

[[noreturn]] void FailToExport(const std::filesystem::path& to, int error) {
  throw Error(ErrorKind::kUsage, "--export: cannot create '" + to.string() +
                                     "': " + ErrnoText(error) +
                                     "; choose a new directory");
}

// Writes everything that the experiment or trial runs from to a new directory,
// completely or not at all.
void Export(const ConfigOptions& options, const Store& store,
            const Target& target, const ExperimentDetail& detail,
            const std::string& text, const GlobalOptions& globals) {
  namespace fs = std::filesystem;
  // Remove a trailing slash.
  fs::path to = fs::path(options.export_to).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  const auto context = ReadStoredContext(store.layout(), detail);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(to, ignored))) FailToExport(to, EEXIST);
  const fs::path made = to.string() + "." + std::to_string(::getpid()) + ".tmp";
  if (::mkdir(made.c_str(), 0700) != 0) FailToExport(to, errno);
  struct Undo {
    ~Undo() {
      std::error_code remove_error;
      fs::remove_all(path, remove_error);
    }
    const fs::path& path;
  } undo{made};
  const std::size_t files =
      context ? CopyContext(*context, made, CopyAccess::kReadWrite).files.size()
              : 0;
  const std::string name =
      std::string(target.trial ? "trial-" : "experiment-") + ToString(target) +
      ".yaml";
  NewFile yaml(made / name, /*replace=*/false);
  yaml.Write(std::as_bytes(std::span(text)));
  yaml.Keep();
  // rename() replaces only an empty directory.
  if (::rename(made.c_str(), to.c_str()) != 0) FailToExport(to, errno);
  SyncDirectory(to.has_parent_path() ? to.parent_path() : ".");
  PrintNotice(globals,
              "wrote " + (to / name).string() +
                  (files == 0 ? std::string()
                              : " and " + CountText(files, "context file")));
}

int Config(const ConfigOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  ExperimentDetail detail = FindExperimentDetail(store, target.experiment);
  RequireNotImported(detail);
  if (target.trial) {
    if (options.original) {
      throw Error(ErrorKind::kUsage,
                  "--original: trial " + ToString(target) +
                      " was not submitted by itself; give its experiment, " +
                      std::to_string(target.experiment));
    }
    detail.config = RerunConfig(
        FindRecordedTrial(store, {target.experiment, *target.trial}));
  }
  const std::string yaml =
      options.original ? detail.yaml : ToYaml(detail.config);
  if (!options.export_to.empty()) {
    Export(options, store, target, detail, yaml, globals);
  } else if (options.json) {
    PrintJson(detail.config);
  } else {
    PrintYaml(yaml);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpConfig(CLI::App& app) {
  auto options = std::make_shared<ConfigOptions>();
  AddOption(app, "EXP", options->target,
            "Experiment (3), or trial (3.7), whose configuration trains its "
            "hyperparameters from scratch")
      .Completes(ValueKind::kTarget)
      .Required();
  AddJsonOption(app, *options);
  AddOption(app, "--export", options->export_to,
            "Write the YAML and the stored context files to a new directory")
      .TypeName("DIR")
      .IsPath();
  AddFlag(app, "--original", options->original,
          "Print the YAML as submitted, without defaults and overrides");
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Print the YAML that trains a trial from scratch",
                              "dtrain config 3.7"},
                             {"Export the YAML with the files it runs from",
                              "dtrain config 3 --export experiment-3"}}});
  return RunWith(Config, options);
}

}  // namespace dtrain
