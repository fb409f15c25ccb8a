#include "engine/slurm/job_request.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/base/text.h"

namespace dtrain {
namespace {

struct SbatchOption {
  std::string_view name;
  char letter = '\0';
};

constexpr std::array<SbatchOption, 19> kReserved = {{
    {"--account", 'A'},
    {"--array", 'a'},
    {"--comment"},
    {"--constraint", 'C'},
    {"--cpus-per-task", 'c'},
    {"--job-name", 'J'},
    {"--mem"},
    {"--no-requeue"},
    {"--nodes", 'N'},
    {"--ntasks", 'n'},
    {"--ntasks-per-node"},
    {"--open-mode"},
    {"--output", 'o'},
    {"--parsable"},
    {"--partition", 'p'},
    {"--qos", 'q'},
    {"--requeue"},
    {"--signal"},
    {"--time", 't'},
}};

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
  for (const std::string& line : config.prologue) text += line + "\n";
  for (const auto& [variable, value] : variables) {
    text += "export " + variable + "=" + QuoteForShell(value) + "\n";
  }
  // Slurm sets the variable itself since version 23.02.
  text += "export SLURM_JOB_END_TIME=${SLURM_JOB_END_TIME:-$(($(date +%s) + " +
          SecondsText(config.time) + "))}\n";
  std::vector<std::string> srun = {"srun",
                                   "--ntasks=" + std::to_string(config.nodes),
                                   "--ntasks-per-node=1",
                                   "--kill-on-bad-exit=0",
                                   "--mpi=none",
                                   "--input=none"};
  // srun has ignored the number of the job since Slurm 22.05.
  AddNumber(srun, "--cpus-per-task", config.cpus_per_task);
  if (config.nodes > 1) srun.emplace_back("--label");
  for (const std::string& word : worker) srun.push_back(QuoteForShell(word));
  return text + "exec " + Join(srun, " ") + "\n";
}

std::filesystem::path JobRequest::OutputOf(const std::string& id) const {
  return directory / ("slurm-" + id + ".out");
}

std::string_view ReservedOption(std::string_view word) {
  const bool has_letter = word.size() > 1 && word[0] == '-' && word[1] != '-';
  const std::string_view name = word.substr(0, word.find('='));
  for (const SbatchOption& option : kReserved) {
    if (has_letter ? word[1] == option.letter : name == option.name) {
      return option.name;
    }
  }
  return {};
}

}  // namespace dtrain
