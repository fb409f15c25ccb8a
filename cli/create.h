#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Options of the commands that create an experiment from a YAML text.
struct CreateOptions {
  std::string config;      // name of the text, for messages
  bool is_inline = false;  // the text was written from the options of `run`
  std::string from;
  // Of --from: the experiment that the text and the files are those of.
  std::optional<ExperimentDetail> recorded;
  std::string context;
  std::vector<std::string> overrides;
  std::string name;
  std::vector<std::string> labels;
  std::vector<std::string> links;
  std::string notify;
  std::string notify_command;
  std::string slots;
  std::string listen;
  std::string executor;
  std::vector<std::string> slurm;
  bool dry_run = false;
  bool test = false;
  bool paused = false;
  bool allow_unread = false;
  RunFlags run;
};

/// Adds the options that all of these commands have, except `run`: --set,
/// --name, --label, --link, --slots, --notify, --notify-command, --dry-run,
/// --test and --paused.
void AddCreateOptions(CLI::App& app, CreateOptions& options);

/// Returns the keys of the YAML that the options override, as KEY=VALUE.
/// Labels and links, which are added, are not among them.
std::vector<std::string> CollectOverrides(const CreateOptions& options);

/// Throws Error(kUsage) for options that cannot be combined with --test or
/// --paused.
void CheckCreateFlags(const CreateOptions& options);

/// Returns the configuration, or prints all findings and throws Error(kUsage).
ExperimentConfig CheckedConfig(const CreateOptions& options,
                               const std::string& text, RunRequest& request,
                               const GlobalOptions& globals);

/// Creates the experiment that the YAML `text` describes, and runs it. Returns
/// the exit code.
int CreateAndRun(const CreateOptions& options, const std::string& text,
                 RunRequest& request, const GlobalOptions& globals);

}  // namespace dtrain
