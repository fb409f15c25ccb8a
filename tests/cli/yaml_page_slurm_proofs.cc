// Effects of the keys of docs/yaml.md about Slurm: on the jobs that a dry run
// prints, and on an experiment whose jobs run in a Slurm that is a fake.

#include <filesystem>

#include "tests/cli/yaml_page.h"

namespace dtrain {
namespace {

using nlohmann::json;

// The part `slurm` of a dry run of the experiment with jobs.
json PlannedJobs(const PageRun& run) {
  const CliResult result = run.Run({"create", "page/page.yaml", "--executor",
                                    "slurm", "--dry-run", "--json"});
  return result.code == 0 ? result.Json().at("slurm") : json(result.err);
}

Look PlannedValue(const std::string& field) {
  return [field](const PageRun& run) -> json {
    const json jobs = PlannedJobs(run);
    return jobs.is_object() ? jobs.at(field) : jobs;
  };
}

// The value of an option of sbatch, or null.
Look Submits(const std::string& option) {
  return [option](const PageRun& run) -> json {
    const json jobs = PlannedJobs(run);
    if (!jobs.is_object()) return jobs;
    for (const auto& word : jobs.at("submit")) {
      const auto text = word.get<std::string>();
      const std::size_t equals = text.find('=');
      if (text.substr(0, equals) != option) continue;
      return equals == text.npos ? "" : text.substr(equals + 1);
    }
    return nullptr;
  };
}

json HasJobScript(const PageRun& run) {
  return std::filesystem::exists(run.directory() / "store" / "experiments" /
                                 "1" / "slurm" / "worker.sh");
}

Proof OptionProof(const std::string& key, const std::string& option,
                  const std::string& value, const json& without,
                  const Refusal& refusal) {
  return {.key = "slurm." + key,
          .set = {{"slurm." + key, value}},
          .program = kPlain,
          .look = Submits(option),
          .without = without,
          .with = value,
          .refusals = {refusal}};
}

Refusal RefusedInteger(const std::string& key, const std::string& value,
                       const std::string& bounds) {
  return {.set = {{"slurm." + key, value}},
          .message = "slurm." + key + ": expected an integer " + bounds +
                     ", got the integer " + value};
}

Refusal RefusedText(const std::string& key) {
  return {.set = {{"slurm." + key, "[a]"}},
          .message = "slurm." + key + ": expected a string, got a list"};
}

std::vector<Proof> JobProofs() {
  return {
      OptionProof("partition", "--partition", "gpu", nullptr,
                  RefusedText("partition")),
      OptionProof("account", "--account", "lab", nullptr,
                  RefusedText("account")),
      OptionProof("qos", "--qos", "high", nullptr, RefusedText("qos")),
      OptionProof("mem", "--mem", "64G", nullptr, RefusedText("mem")),
      OptionProof("constraint", "--constraint", "a100", nullptr,
                  RefusedText("constraint")),
      OptionProof(
          "time", "--time", "1-00:00:00", "04:00:00",
          {.set = {{"slurm.time", "4h"}},
           .message = "slurm.time: expected a time of Slurm, from a minute to "
                      "a year: MINUTES, MINUTES:SECONDS, "
                      "HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES "
                      "or DAYS-HOURS:MINUTES:SECONDS; got the string '4h'"}),
      OptionProof("nodes", "--nodes", "2", "1",
                  RefusedInteger("nodes", "0", "from 1 to 1000")),
      OptionProof("gpus_per_node", "--gpus-per-node", "4", nullptr,
                  RefusedInteger("gpus_per_node", "0", "from 1 to 1024")),
      OptionProof("cpus_per_task", "--cpus-per-task", "8", nullptr,
                  RefusedInteger("cpus_per_task", "0", "from 1 to 10000")),
  };
}

}  // namespace

std::vector<Proof> SlurmProofs() {
  std::vector<Proof> all = JobProofs();
  const std::vector<Proof> others = {
      {.key = "resources.executor",
       .set = {{"resources.executor", "slurm"}},
       .program = kPlain,
       .look = HasJobScript,
       .without = false,
       .with = true,
       .on_fake_slurm = true,
       .refusals = {{.set = {{"resources.executor", "slurmm"}},
                     .message = "resources.executor: expected one of local, "
                                "slurm, got the string 'slurmm'; did you mean "
                                "'slurm'?"}}},
      {.key = "slurm",
       .set = {{"slurm", "{qos: low}"}},
       .program = kPlain,
       .look = Submits("--qos"),
       .without = nullptr,
       .with = "low",
       .refusals = {{.set = {{"slurm", "gpu"}},
                     .message =
                         "slurm: expected a map, got the string 'gpu'"}}},
      {.key = "slurm.max_jobs",
       .set = {{"slurm.max_jobs", "3"}},
       .program = kPlain,
       .look = PlannedValue("max_jobs"),
       .without = 8,
       .with = 3,
       .refusals = {RefusedInteger("max_jobs", "0", "from 1 to 10000")}},
      {.key = "slurm.min_jobs",
       .set = {{"slurm.min_jobs", "2"}},
       .program = kPlain,
       .look = PlannedValue("min_jobs"),
       .without = 0,
       .with = 2,
       .refusals = {{.set = {{"slurm.min_jobs", "9"}},
                     .message = "slurm.min_jobs: is more than max_jobs (8); "
                                "lower it"}}},
      {.key = "slurm.idle_timeout",
       .set = {{"slurm.idle_timeout", "5m"}},
       .program = kPlain,
       .look = PlannedValue("idle_timeout"),
       .without = 60.0,
       .with = 300.0,
       .refusals = {{.set = {{"slurm.idle_timeout", "0"}},
                     .message =
                         "slurm.idle_timeout: expected a duration above 0, got "
                         "the integer 0; write seconds or a number with ms, s, "
                         "m, h or d, such as 90 or 1.5h"}}},
      {.key = "slurm.grace",
       .set = {{"slurm.grace", "5m"}},
       .program = kPlain,
       .look = Submits("--signal"),
       .without = "USR2@120",
       .with = "USR2@300",
       .refusals = {{.set = {{"slurm.time", "5"}, {"slurm.grace", "5m"}},
                     .message = "slurm.grace: is not shorter than slurm.time "
                                "(00:05:00), so no trial could run; lower "
                                "it"}}},
      {.key = "slurm.sbatch_args",
       .set = {{"slurm.sbatch_args", "[--exclusive]"}},
       .program = kPlain,
       .look = Submits("--exclusive"),
       .without = nullptr,
       .with = "",
       .refusals = {{.set = {{"slurm.sbatch_args", "['--time=5']"}},
                     .message = "slurm.sbatch_args[0]: dtrain sets --time "
                                "itself; remove it, and use the keys of slurm",
                     .column = 1},
                    {.set = {{"slurm.sbatch_args", "[-w, node1]"}},
                     .message = "slurm.sbatch_args[1]: 'node1' is not an "
                                "option; write an option and its value as one "
                                "string, --option=value",
                     .column = 5}}},
      {.key = "slurm.prologue",
       .set = {{"slurm.prologue", "[module load cuda]"}},
       .program = kPlain,
       .look = [](const PageRun& run) -> json {
         const json jobs = PlannedJobs(run);
         return jobs.at("script").get<std::string>().find(
                    "\nmodule load cuda\n") != std::string::npos;
       },
       .without = false,
       .with = true,
       .refusals = {{.set = {{"slurm.prologue", "module load cuda"}},
                     .message = "slurm.prologue: expected a list of strings, "
                                "got the string 'module load cuda'"}}},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace dtrain
