#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/config/slurm_config.h"

namespace dtrain {

/// The jobs that start the workers of an experiment, one worker on each node:
/// the script, and the options of sbatch. All jobs of an experiment are alike.
/// Accesses no file.
struct JobRequest {
  SlurmConfig config;
  std::string name;   // as squeue shows it: "dtrain-7"
  std::string owner;  // comment by which the experiment's jobs are found
  // Words of the command that each node executes, without secrets: command
  // lines are visible to all users of a machine.
  std::vector<std::string> worker;
  // Exported to the worker, after the lines of `prologue`.
  std::vector<std::pair<std::string, std::string>> variables;
  // The script runs in an allocation that exists: with its resources, and until
  // its end, whatever `config` has.
  bool in_allocation = false;
  // End of that allocation, if it is known.
  std::optional<Timestamp> allocation_end = std::nullopt;
  std::filesystem::path script;     // absolute
  std::filesystem::path directory;  // of the output files, absolute

  /// Returns the words of the command that submits the script.
  std::vector<std::string> SubmitCommand() const;
  /// Returns the text of the script. Its last command replaces the shell by
  /// srun, so that signals reach the workers.
  std::string Script() const;
  /// Returns the file that the job `id` and its workers print to.
  std::filesystem::path OutputFile(const std::string& id) const;

 private:
};

}  // namespace dtrain
