// Effects of the keys of docs/yaml.md about resources and checkpoints on trials
// that are programs.

#include <filesystem>

#include "tests/cli/yaml_page.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Its best validation is its first, by loss.
constexpr char kKeeper[] = "for n in 2 3 4; do keep $n; validate $n $n; done\n";
constexpr char kOnGpus[] =
    "echo \"${CUDA_VISIBLE_DEVICES-unset}\" >"
    " \"$HOME/gpus\"; validate $until 1\n";

const Settings kTwoSlots = {{"searcher.name", "random"},
                            {"searcher.max_trials", "3"},
                            {"resources.slots", "cpu:2"}};

// The batches of the checkpoints that are kept.
json Kept(const PageRun& run) {
  const json document = run.Says("checkpoints");
  json batches = json::array();
  for (const json& row : document.at("checkpoints")) {
    batches.push_back(row.at("batches"));
  }
  return batches;
}

// The directory that checkpoints go to, below the run's: "store", or that in
// which the store's own one is.
json WhereKept(const PageRun& run) {
  const json row = run.Says("checkpoints").at("checkpoints").at(0);
  const fs::path path = row.at("path").get<std::string>();
  if (!fs::is_directory(path)) return "nowhere";
  const fs::path inner = path.lexically_relative(run.directory());
  if (*inner.begin() == "store") return "store";
  // PATH/STORE-UUID/EXP/TRIAL/CHECKPOINT-UUID
  return inner.parent_path().parent_path().parent_path().parent_path();
}

// True if the experiment has a key for workers.
json HasWorkerKey(const PageRun& run) {
  return fs::exists(run.directory() / "store/experiments" /
                    std::to_string(run.experiment()) / "worker.key");
}

// True if this machine had no slots for the trials.
json HadNoSlots(const PageRun& run) {
  return run.Says("describe").at("provenance").at("slots").at("count") == 0;
}

}  // namespace

std::vector<Proof> ResourcesProofs() {
  return {
      {.key = "reproducibility",
       .set = {{"reproducibility", "{trial_seed: 5}"}},
       .program = kPlain,
       .look = Told("/seed"),
       .with = 5},
      // Whether a second experiment of the same YAML is told the same.
      {.key = "reproducibility.experiment_seed",
       .base = {{"hyperparameters.x", "{type: double, minval: 0, maxval: 1}"},
                {"searcher.name", "random"},
                {"searcher.max_trials", "1"},
                {"reproducibility.experiment_seed", ""}},
       .set = {{"reproducibility.experiment_seed", "3"}},
       .program = "cat $HOME/drawn >$HOME/before 2>/dev/null || true\n"
                  "echo $DTRAIN_SEED $DTRAIN_HPARAM_x >$HOME/drawn\n"
                  "validate $until 1\n",
       .look = [](const PageRun& run) -> json {
         const CliResult again = run.Run({"create", "page/page.yaml"});
         return again.code == 0 && run.Left("before") == run.Left("drawn");
       },
       .without = false,
       .with = true},
      {.key = "reproducibility.trial_seed",
       .set = {{"reproducibility.trial_seed", "5"}},
       .program = kPlain,
       .look = Told("/seed"),
       .with = 5},
      {.key = "resources",
       .base = {{"searcher.name", "random"}, {"searcher.max_trials", "2"}},
       .set = {{"resources", "{slots: 'cpu:1'}"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "resources.slots_per_trial",
       .base = kTwoSlots,
       .set = {{"resources.slots_per_trial", "2"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "resources.slots_per_trial",
       .variant = "all",
       .base = kTwoSlots,
       .set = {{"resources.slots_per_trial", "all"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "resources.slots_per_trial",
       .variant = "share",
       .base = {{"resources.slots", "auto"}},
       .set = {{"resources.slots_per_trial", "0.25"}},
       .program = kPlain,
       .look = Told("/gpu_share"),
       .without = 1,
       .with = 0.25,
       .on_fake_gpus = true},
      {.key = "resources.slots_per_trial",
       .variant = "none",
       .base = {{"resources.slots", "auto"}},
       .set = {{"resources.slots_per_trial", "0"}},
       .program = kOnGpus,
       .look = Left("gpus"),
       .without = "GPU-a",
       .with = "",
       .on_fake_gpus = true},
      {.key = "resources.max_slots",
       .base = kTwoSlots,
       .set = {{"resources.max_slots", "1"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "resources.listen",
       .set = {{"resources.listen", "0"}},
       .program = kPlain,
       .look = HasWorkerKey,
       .without = false,
       .with = true},
      // Without workers the trial never starts.
      {.key = "resources.local",
       .base = {{"resources.listen", "0"}, {"time_limit", "10s"}},
       .set = {{"resources.local", "false"}},
       .program = kPlain,
       .look = HadNoSlots,
       .without = false,
       .with = true},
      // GPUs where there are some; none of them; one; the number 1.
      {.key = "resources.slots",
       .variant = "auto",
       .set = {{"resources.slots", "auto"}},
       .program = kOnGpus,
       .look = Left("gpus"),
       .without = "",
       .with = "GPU-a",
       .on_fake_gpus = true},
      {.key = "resources.slots",
       .variant = "none",
       .base = {{"resources.slots", ""}},
       .set = {{"resources.slots", "none"}},
       .program = kOnGpus,
       .look = Left("gpus"),
       .without = "GPU-a",
       .with = "",
       .on_fake_gpus = true},
      {.key = "resources.slots",
       .variant = "cpus",
       .base = kTwoSlots,
       .set = {{"resources.slots", "cpu:1"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "resources.slots",
       .variant = "gpus",
       .base = kTwoSlots + Settings{{"resources.slots", "auto"}},
       .set = {{"resources.slots", "gpu:1"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1,
       .on_fake_gpus = true},
      {.key = "resources.slots",
       .variant = "most_free",
       .base = kTwoSlots + Settings{{"resources.slots", "auto"}},
       .set = {{"resources.slots", "most_free"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1,
       .on_fake_gpus = true},
      {.key = "resources.slots",
       .variant = "number",
       .base = {{"resources.slots", "auto"}},
       .set = {{"resources.slots", "1"}},
       .program = kOnGpus,
       .look = Left("gpus"),
       .without = "GPU-a",
       .with = "GPU-b",
       .on_fake_gpus = true},
      {.key = "resources.slots",
       .variant = "list",
       .base = {{"resources.slots", "[0]"},
                {"resources.slots_per_trial", "all"}},
       .set = {{"resources.slots", "[0, 1]"}},
       .program = kOnGpus,
       .look = Left("gpus"),
       .without = "GPU-a",
       .with = "GPU-a,GPU-b",
       .on_fake_gpus = true},
  };
}

std::vector<Proof> CheckpointProofs() {
  const auto kept = [](const std::string& key, const std::string& value,
                       const json& without, const json& with,
                       const Settings& base = {}) -> Proof {
    return {.key = key,
            .variant = value,
            .base = base,
            .set = {{key, value}},
            .program = kKeeper,
            .look = Kept,
            .without = without,
            .with = with};
  };
  const auto where = [](const std::string& key, const std::string& value,
                        const json& without, const json& with,
                        const Settings& base = {}) -> Proof {
    return {.key = key,
            .variant = base.empty() ? "" : "below",
            .base = base,
            .set = {{key, value}},
            .program = "keep 4; validate 4 1\n",
            .look = WhereKept,
            .without = without,
            .with = with};
  };
  const std::string storage = "checkpoint_storage.";
  const Settings kNone = {{storage + "save_trial_best", "0"},
                          {storage + "save_trial_latest", "0"}};
  Proof type = where(storage + "type", "shared_fs", "page/kept", "page/kept",
                     {{storage + "host_path", "kept"}});
  type.same = true;
  Proof directory = type;
  directory.variant = "directory";
  directory.set = {{storage + "type", "directory"}};
  return {
      {.key = "checkpoint_policy",
       .variant = "told",
       .set = {{"checkpoint_policy", "all"}},
       .program = kPlain,
       .look = Told("/checkpoint_policy"),
       .without = "best",
       .with = "all"},
      kept("checkpoint_policy", "all", {2, 4}, {2, 3, 4}),
      kept("checkpoint_policy", "none", {2, 4}, json::array()),
      {.key = "checkpoint_storage",
       .set = {{"checkpoint_storage", "{save_trial_latest: 2}"}},
       .program = kKeeper,
       .look = Kept,
       .without = json{2, 4},
       .with = json{2, 3, 4}},
      type,
      directory,
      where(storage + "path", "kept", "store", "page/kept"),
      where(storage + "host_path", "kept", "store", "page/kept"),
      where(storage + "container_path", "kept", "store", "page/kept"),
      where(storage + "storage_path", "in/side", "page/kept",
            "page/kept/in/side", {{storage + "host_path", "kept"}}),
      where(storage + "checkpoint_path", "kept", "store", "page/kept"),
      where(storage + "checkpoint_path", "inside", "page/kept",
            "page/kept/inside", {{storage + "host_path", "kept"}}),
      kept(storage + "save_experiment_best", "2", json::array(), {2, 3}, kNone),
      kept(storage + "save_trial_best", "0", {2, 4}, {4}),
      kept(storage + "save_trial_best", "2", {2, 4}, {2, 3, 4}),
      kept(storage + "save_trial_latest", "0", {2, 4}, {2}),
      kept(storage + "save_trial_latest", "2", {2, 4}, {2, 3, 4}),
  };
}

}  // namespace dtrain
