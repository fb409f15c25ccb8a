#include "engine/config/slurm_check.h"

#include <string>

#include "engine/config/entrypoint.h"
#include "engine/config/experiment_config.h"
#include "engine/config/slurm_config.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;

// A command takes its slots on one node. A model may take them on the nodes of
// several jobs, or on those of an allocation, which the YAML does not tell. A
// recorded experiment may be resumed in another place than the one that it was
// created in.
void CheckSlots(const Node& root, const ReadOptions& options,
                const Json& effective, Findings& findings) {
  const Json& resources = effective.at("resources");
  const Json& slurm = effective.at("slurm");
  const Json& per_trial = resources.at("slots_per_trial");
  if (!per_trial.is_number_integer()) return;
  const Json& choice = resources.at("slots");
  const bool on_gpus = !slurm.at("gpus_per_node").is_null() && choice == "auto";
  if (choice != "auto" && choice != "none" && choice != "cpu") return;
  const std::string key = on_gpus ? "gpus_per_node" : "cpus_per_task";
  if (slurm.at(key).is_null()) return;
  const auto slots = slurm.at(key).get<std::int64_t>();
  const auto nodes = slurm.at("nodes").get<std::int64_t>();
  const auto jobs = slurm.at("max_jobs").get<std::int64_t>();
  const bool one_node = IsCommandEntrypoint(effective.at("entrypoint"));
  if (!one_node && (options.in_allocation || options.stored)) return;
  if (slots * (one_node ? 1 : nodes * jobs) >= per_trial) return;
  const std::string all = "slurm." + key;
  findings.Error(
      FindMark(root, all), all,
      one_node
          ? "is less than slots_per_trial (" + per_trial.dump() +
                "), so no trial could run; raise it"
          : "gives all jobs together " + std::to_string(slots * nodes * jobs) +
                " slots (max_jobs × nodes × " + key + " = " +
                std::to_string(jobs) + " × " + std::to_string(nodes) + " × " +
                std::to_string(slots) + "), fewer than slots_per_trial (" +
                per_trial.dump() +
                "), so no trial could run; raise one of them");
}

void CheckGrace(const Node& root, const Json& slurm, Findings& findings) {
  const auto time = ParseSlurmTime(slurm.at("time").get<std::string>());
  const std::chrono::duration<double> grace(slurm.at("grace").get<double>());
  const std::string key = "slurm.grace";
  if (grace < std::chrono::seconds(1)) {
    findings.Error(FindMark(root, key), key, "use at least 1s");
  } else if (grace >= *time) {
    findings.Error(FindMark(root, key), key,
                   "is not shorter than slurm.time (" + FormatSlurmTime(*time) +
                       "), so no trial could run; lower it");
  }
}

void CheckArguments(const Node& root, const Json& slurm, Findings& findings) {
  const Json& words = slurm.at("sbatch_args");
  const Node* section = root.Find("slurm");
  const Node* list = section ? section->Find("sbatch_args") : nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i].get<std::string>();
    const std::string_view option = ReservedOption(word);
    const std::string key = "slurm.sbatch_args[" + std::to_string(i) + "]";
    const Mark mark = list != nullptr && i < list->items.size()
                          ? list->items[i].mark
                          : Mark{};
    if (!option.empty()) {
      findings.Error(mark, key,
                     "dtrain sets " + std::string(option) +
                         " itself; remove it, and use the keys of slurm");
    } else if (word[0] != '-') {
      findings.Error(mark, key,
                     "'" + word +
                         "' is not an option; write an option and its value "
                         "as one string, --option=value");
    }
  }
}

}  // namespace

void SettleExecutor(const Node& root, Json& resources) {
  if (resources.at("executor") != "slurm") return;
  if (!IsGiven(root, "resources.local")) resources["local"] = false;
  if (!IsGiven(root, "resources.listen")) resources["listen"] = 0;
}

void RefuseMisplacedSlurm(const Node& root, Findings& findings) {
  const Node* resources = root.Find("resources");
  const Node* slurm = resources ? resources->Find("slurm") : nullptr;
  // Determined writes an empty one.
  if (slurm == nullptr || slurm->is_null()) return;
  if (slurm->is_map() && slurm->entries.empty()) return;
  findings.Error(slurm->mark, "resources.slurm",
                 "is not read here; move the section to the top level of the "
                 "file");
}

void CheckSlurm(const Node& root, const ReadOptions& options,
                const Json& effective, Findings& findings) {
  const Json& slurm = effective.at("slurm");
  if (slurm.is_null()) return;
  CheckSlots(root, options, effective, findings);
  CheckGrace(root, slurm, findings);
  CheckArguments(root, slurm, findings);
  if (slurm.at("min_jobs") > slurm.at("max_jobs")) {
    findings.Error(FindMark(root, "slurm.min_jobs"), "slurm.min_jobs",
                   "is more than max_jobs (" + slurm.at("max_jobs").dump() +
                       "); lower it");
  }
  if (effective.at("resources").at("executor") == "slurm") return;
  // An unknown executor has an error of its own.
  const Node* section = root.Find("resources");
  const Node* executor = section ? section->Find("executor") : nullptr;
  if (executor != nullptr && executor->text != "local") return;
  findings.Warning(FindMark(root, "slurm"), "slurm",
                   "has no effect, because trials run on this machine; set "
                   "resources.executor: slurm");
}

}  // namespace dtrain
