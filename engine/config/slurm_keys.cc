// The keys of the section `slurm` in the table of the configuration's keys (see
// schema.h).

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/key_storing.h"
#include "engine/config/schema.h"
#include "engine/config/slurm_config.h"

namespace dtrain {
namespace {

using enum KeyType;
using namespace key_storing;  // NOLINT: the functions of this table

template <auto kMember>
constexpr auto IntoSlurm = Into<&ExperimentConfig::slurm, kMember>;

template <auto kMember>
void StoreSeconds(const nlohmann::json& json, ExperimentConfig& config) {
  config.slurm.*kMember = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(json.get<double>()));
}

void StoreWalltime(const nlohmann::json& json, ExperimentConfig& config) {
  config.slurm.time = ParseSlurmTime(json.get<std::string>()).value();
}

constexpr KeySpec kSlurmKeys[] = {
    {.path = "slurm",
     .type = kOptionalSection,
     .doc = "Jobs of Slurm that start workers, with `resources.executor: "
            "slurm` ([slurm.md](slurm.md))."},
    {.path = "slurm.partition",
     .type = kText,
     .doc = "Partition; by default Slurm's.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::partition>},
    {.path = "slurm.account",
     .type = kText,
     .doc = "Account that is charged.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::account>},
    {.path = "slurm.qos",
     .type = kText,
     .doc = "Quality of service.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::qos>},
    {.path = "slurm.time",
     .type = kSlurmTime,
     .fallback = R"("04:00:00")",
     .doc = "Walltime of a job. A trial can be longer: it continues in the "
            "next job.",
     .store = StoreWalltime},
    {.path = "slurm.nodes",
     .type = kInt,
     .fallback = "1",
     .doc = "Nodes of a job, with one worker on each.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::nodes>},
    {.path = "slurm.gpus_per_node",
     .type = kInt,
     .doc = "GPUs of a worker.",
     .least = 1,
     .most = 1024,
     .store = IntoSlurm<&SlurmConfig::gpus_per_node>},
    {.path = "slurm.cpus_per_task",
     .type = kInt,
     .doc = "CPUs of a worker.",
     .least = 1,
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::cpus_per_task>},
    {.path = "slurm.mem",
     .type = kText,
     .doc = "Memory of a node, such as `64G`.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::mem>},
    {.path = "slurm.constraint",
     .type = kText,
     .doc = "Features that nodes must have.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::constraint>},
    {.path = "slurm.max_jobs",
     .type = kInt,
     .fallback = "8",
     .doc = "Maximum number of jobs at a time, pending ones included.",
     .least = 1,
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::max_jobs>},
    {.path = "slurm.min_jobs",
     .type = kInt,
     .fallback = "0",
     .doc = "Jobs that are kept even if there is nothing to do.",
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::min_jobs>},
    {.path = "slurm.idle_timeout",
     .type = kDuration,
     .fallback = "60",
     .doc = "A job whose workers have had no trial for so long is ended.",
     .store = StoreSeconds<&SlurmConfig::idle_timeout>},
    {.path = "slurm.grace",
     .type = kDuration,
     .fallback = "120",
     .doc = "Time before the walltime at which trials are paused, to save a "
            "checkpoint and continue elsewhere.",
     .store = StoreSeconds<&SlurmConfig::grace>},
    {.path = "slurm.sbatch_args",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Further options, as `sbatch` takes them.",
     .least = 1,
     .most = 1000,
     .store = IntoSlurm<&SlurmConfig::sbatch_args>},
    {.path = "slurm.prologue",
     .type = kTexts,
     .fallback = "[]",
     .doc = "Lines of bash that a job executes before its workers, such as "
            "`module load cuda`.",
     .most = 10'000,
     .store = IntoSlurm<&SlurmConfig::prologue>},
};

}  // namespace

std::span<const KeySpec> SlurmKeys() { return kSlurmKeys; }

}  // namespace dtrain
