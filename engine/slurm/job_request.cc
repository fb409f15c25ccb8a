// The sbatch command and the script of a job that runs workers. Everything that
// decides about resources is an option of sbatch; the script exports variables,
// runs the user's prologue and starts one worker on each node with srun.
//
// A job must not be requeued (its workers would come back under the number of a
// job that has ended), and Slurm signals it before its end, so that trials can
// save checkpoints within `grace`. In the user's own allocation only the script
// is used.

#include "engine/slurm/job_request.h"

#include <chrono>

#include "engine/base/text.h"

namespace dtrain {
namespace {

std::string SecondsText(Duration time) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

// sbatch replaces %j by the number of the job, and %% by a percent sign.
std::string EscapePercent(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

void AddText(std::vector<std::string>& words, const std::string& option,
             const std::string& value) {
  if (!value.empty()) words.push_back(option + "=" + value);
}

void AddNumber(std::vector<std::string>& words, const std::string& option,
               const std::optional<std::int64_t>& value) {
  if (value) words.push_back(option + "=" + std::to_string(*value));
}

}  // namespace

std::vector<std::string> JobRequest::SubmitCommand() const {
  std::vector<std::string> words = {
      "sbatch",
      "--parsable",
      "--no-requeue",
      "--open-mode=append",
      "--signal=USR2@" + SecondsText(config.grace),
      "--job-name=" + name,
      "--comment=" + owner,
      "--output=" + EscapePercent((directory / "slurm-").string()) + "%j.out",
      "--time=" + FormatSlurmTime(config.time),
      "--nodes=" + std::to_string(config.nodes),
      "--ntasks-per-node=1"};
  AddNumber(words, "--cpus-per-task", config.cpus_per_task);
  AddNumber(words, "--gpus-per-node", config.gpus_per_node);
  AddText(words, "--mem", config.mem);
  AddText(words, "--partition", config.partition);
  AddText(words, "--account", config.account);
  AddText(words, "--qos", config.qos);
  AddText(words, "--constraint", config.constraint);
  words.insert(words.end(), config.sbatch_args.begin(),
               config.sbatch_args.end());
  words.push_back(script.string());
  return words;
}

std::string JobRequest::Script() const {
  std::string text =
      "#!/bin/bash\n"
      "# Starts workers of dtrain, one on each node of a job of Slurm.\n";
  // Before the prologue, which may take minutes.
  // Slurm sets SLURM_JOB_END_TIME itself since version 23.02.
  const std::string end =
      !in_allocation   ? "$(($(date +%s) + " + SecondsText(config.time) + "))"
      : allocation_end ? SecondsText(*allocation_end)
                       : "";
  if (!end.empty()) {
    text += "export SLURM_JOB_END_TIME=${SLURM_JOB_END_TIME:-" + end + "}\n";
  }
  for (const std::string& line : config.prologue) text += line + "\n";
  for (const auto& [variable, value] : variables) {
    text += "export " + variable + "=" + QuoteForShell(value) + "\n";
  }
  // Jobs on one node have their own slots, and must not wait for each other's.
  // The runners in an allocation share them. Two clusters may have jobs of one
  // number on one machine.
  text += "export DTRAIN_RUNTIME_DIR=${TMPDIR:-/tmp}/dtrain-$UID-$SLURM_JOB_ID";
  if (!in_allocation) {
    text += "-" + owner.substr(0, owner.find_first_of("-."));
  }
  text += "\n";
  std::vector<std::string> srun = {"srun",
                                   "--ntasks=" + std::to_string(config.nodes),
                                   "--ntasks-per-node=1",
                                   "--kill-on-bad-exit=0",
                                   "--mpi=none",
                                   "--input=none"};
  // srun has ignored the number of the job since Slurm 22.05.
  if (!in_allocation) {
    AddNumber(srun, "--cpus-per-task", config.cpus_per_task);
  }
  if (config.nodes > 1) srun.emplace_back("--label");
  for (const std::string& word : worker) srun.push_back(QuoteForShell(word));
  return text + "exec " + Join(srun, " ") + "\n";
}

std::filesystem::path JobRequest::OutputFile(const std::string& id) const {
  return directory / ("slurm-" + id + ".out");
}

}  // namespace dtrain
