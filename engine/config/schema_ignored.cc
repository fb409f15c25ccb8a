#include "engine/config/schema.h"

// Keys of Determined's that are harmless to ignore: each gives one note, whose
// text is the row's `doc`.

namespace dtrain {
namespace {

constexpr KeySpec kIgnoredKeys[] = {
    {.path = "bind_mounts",
     .doc = "containers are not run; use paths of this machine"},
    {.path = "data_layer", .doc = "data sources cache on their own"},
    {.path = "debug", .doc = "use `dtrain -v`"},
    {.path = "integrations", .doc = "there are none"},
    {.path = "log_policies", .doc = "`max_restarts` decides about restarts"},
    {.path = "pbs", .doc = "there is no PBS executor"},
    {.path = "pod_spec", .doc = "containers are not run"},
    {.path = "preemption_timeout",
     .doc = "a stop waits for the end of a batch and its checkpoint"},
    {.path = "project", .doc = "there are no projects; use labels"},
    {.path = "retention_policy",
     .doc = "nothing is deleted by age; use `dtrain delete`"},
    {.path = "security", .doc = "containers are not run"},
    {.path = "slurm", .doc = "use resources.slurm"},
    {.path = "tensorboard_storage",
     .doc = "no event files are written; use `dtrain plot`"},
    {.path = "workspace", .doc = "there are no workspaces; use labels"},
    {.path = "checkpoint_storage.propagation", .doc = "containers are not run"},
    {.path = "checkpoint_storage.tensorboard_path",
     .doc = "no event files are written; use `dtrain plot`"},
    {.path = "environment.add_capabilities", .doc = "containers are not run"},
    {.path = "environment.drop_capabilities", .doc = "containers are not run"},
    {.path = "environment.force_pull_image", .doc = "containers are not run"},
    {.path = "environment.image",
     .doc = "containers are not run; trials use this machine's libraries"},
    {.path = "environment.pod_spec", .doc = "containers are not run"},
    {.path = "environment.ports", .doc = "containers are not run"},
    {.path = "environment.proxy_ports", .doc = "containers are not run"},
    {.path = "environment.registry_auth", .doc = "containers are not run"},
    {.path = "optimizations.auto_tune_tensor_fusion",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.grad_updates_size_file",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.gradient_compression",
     .doc = "gradients are reduced in their own type"},
    {.path = "optimizations.tensor_fusion_cycle_time",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.tensor_fusion_threshold",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "profiling.begin_on_batch",
     .doc = "a profile covers the whole trial"},
    {.path = "profiling.end_after_batch",
     .doc = "a profile covers the whole trial"},
    {.path = "profiling.sync_timings",
     .doc = "a profile never makes the device wait"},
    {.path = "resources.agent_label", .doc = "one machine has no agents"},
    {.path = "resources.devices", .doc = "containers are not run"},
    {.path = "resources.is_single_node",
     .doc = "every trial runs on one machine"},
    {.path = "resources.native_parallel", .doc = "ranks are started by dtrain"},
    {.path = "resources.priority", .doc = "slots go to who waits longest"},
    {.path = "resources.resource_pool",
     .doc = "one machine has no pools; use resources.slots"},
    {.path = "resources.shm_size", .doc = "containers are not run"},
    {.path = "resources.weight", .doc = "slots go to who waits longest"},
};

}  // namespace

std::span<const KeySpec> IgnoredKeys() { return kIgnoredKeys; }

}  // namespace dtrain
