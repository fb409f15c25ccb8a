// Values that `create` refuses, at least one for each key of docs/yaml.md.

#include "tests/cli/yaml_page.h"

namespace dtrain {

std::vector<Refusal> Refusals() {
  return {
      {"name", {{"name", "''"}}, "name: is empty; write a non-empty string"},
      {"description",
       {{"description", "[a]"}},
       "description: expected a string, got a list"},
      {"labels",
       {{"labels", "[a, '']"}},
       "labels[1]: is empty; write a non-empty string",
       4},
      {"entrypoint",
       {{"entrypoint", "builtin:FaultTrail"}},
       "entrypoint: unknown model 'builtin:FaultTrail'; did you mean "
       "'builtin:FaultTrial'?"},
      {"entrypoint",
       {{"entrypoint", "sh program.sh | tee log"}},
       "entrypoint: commands are not run by a shell; write a list: [sh, -c, "
       "'...']"},
      {"entrypoint",
       {{"entrypoint", "sh program.sh {lrr}"}},
       "entrypoint: character 15: no hyperparameter 'lrr' for {lrr}"},
      {"hyperparameters",
       {{"hyperparameters.lr", "{type: double, minval: 2, maxval: 1}"}},
       "hyperparameters.lr.maxval: expected a value above minval (2), got 1",
       34},
      {"hyperparameters",
       {{"hyperparameters.global_batch_size", "0"}},
       "hyperparameters.global_batch_size: expected an integer of at least 1, "
       "got the integer 0"},
      {"data", {{"data", "[1]"}}, "data: expected a map, got a list"},
      {"records_per_epoch",
       {{"records_per_epoch", "-1"}},
       "records_per_epoch: expected an integer of at least 0, got the integer "
       "-1"},
      {"min_validation_period",
       {{"min_validation_period", "{steps: 2}"}},
       "min_validation_period.steps: unknown key; remove it",
       1},
      {"min_checkpoint_period",
       {{"min_checkpoint_period", "1e3"}},
       "min_checkpoint_period: expected {batches: N}, {records: N}, {epochs: "
       "N} or an integer (batches), got the number 1e3; write 1000"},
      {"perform_initial_validation",
       {{"perform_initial_validation", "yes"}},
       "perform_initial_validation: expected true or false, got the string "
       "'yes'"},
      {"scheduling_unit",
       {{"scheduling_unit", "0"}},
       "scheduling_unit: expected an integer from 1 to 1000000000, got the "
       "integer 0"},
      {"time_limit",
       {{"time_limit", "soon"}},
       "time_limit: expected a duration above 0, got the string 'soon'; write "
       "seconds or a number with ms, s, m, h or d, such as 90 or 1.5h"},
      {"searcher",
       {{"searcher", "[single]"}},
       "searcher: expected a map, got a list"},
      {"searcher.name",
       {{"searcher.name", "adaptive_simple"}},
       "searcher.name: expected one of single, random, "},
      {"searcher.metric",
       {{"searcher.metric", "5"}},
       "searcher.metric: expected a string, got the integer 5; quote it"},
      {"searcher.smaller_is_better",
       {{"searcher.smaller_is_better", "no"}},
       "searcher.smaller_is_better: expected true or false, got the string "
       "'no'"},
      {"searcher.max_length",
       {{"searcher.max_length", "0"}},
       "searcher.max_length: expected an integer of at least 1, got the "
       "integer 0"},
      {"searcher.max_time",
       {{"searcher.max_length", ""},
        {"searcher.time_metric", "batches"},
        {"searcher.max_time", "0"}},
       "searcher.max_time: expected an integer of at least 1, got the integer "
       "0"},
      {"searcher.max_time",
       {{"searcher.time_metric", "batches"}, {"searcher.max_time", "5"}},
       "searcher.max_time: replaces max_length; remove one of them"},
      {"searcher.time_metric",
       {{"searcher.max_length", ""},
        {"searcher.max_time", "5"},
        {"searcher.time_metric", "steps"}},
       "searcher.time_metric: expected one of batches, records, epochs, got "
       "the string 'steps'; other units are not supported; use max_length"},
      {"searcher.time_metric",
       {{"searcher.time_metric", "batches"}},
       "searcher.time_metric: only applies to max_time; remove it"},
      {"searcher.max_trials",
       {{"searcher.name", "random"}, {"searcher.max_trials", "1000001"}},
       "searcher.max_trials: expected an integer from 1 to 1000000, got the "
       "integer 1000001"},
      {"searcher.max_trials",
       {{"searcher.max_trials", "2"}},
       "searcher.max_trials: only applies to random, ",
       -12},
      {"searcher.max_concurrent_trials",
       {{"searcher.name", "random"},
        {"searcher.max_trials", "2"},
        {"searcher.max_concurrent_trials", "-1"}},
       "searcher.max_concurrent_trials: expected an integer from 0 to 1000000, "
       "got the integer -1"},
      {"searcher.num_rungs",
       {{"searcher.name", "asha"},
        {"searcher.max_trials", "2"},
        {"searcher.num_rungs", "65"}},
       "searcher.num_rungs: expected an integer from 1 to 64, got the integer "
       "65"},
      {"searcher.divisor",
       {{"searcher.name", "asha"},
        {"searcher.max_trials", "2"},
        {"searcher.divisor", "1"}},
       "searcher.divisor: expected a number above 1, at most 1000000, got the "
       "integer 1"},
      {"searcher.stop_once",
       {{"searcher.name", "asha"},
        {"searcher.max_trials", "2"},
        {"searcher.stop_once", "1"}},
       "searcher.stop_once: expected true or false, got the integer 1"},
      {"searcher.stop_once",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.stop_once", "true"}},
       "searcher.stop_once: only applies to async_halving, adaptive_asha, not "
       "to bayesian_asha, which pauses trials and promotes them, and stops "
       "none for good; remove it",
       -11},
      {"searcher.budget",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.budget", "soon"}},
       "searcher.budget: expected a length or a duration, got the string "
       "'soon'; write {batches: N}, {records: N}, {epochs: N}, or a number "
       "with s, m, h or d, such as 8h"},
      {"searcher.budget",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.budget", "{hours: 9}"}},
       "searcher.budget: expected a length or a duration, got a map; write "
       "{batches: N}, {records: N}, {epochs: N}, or a number with s, m, h or "
       "d, such as 8h"},
      {"searcher.budget",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.budget", "'30'"}},
       "searcher.budget: expected a length or a duration, got the string '30'; "
       "write {batches: N}, {records: N}, {epochs: N}, or a number with s, m, "
       "h or d, such as 8h"},
      {"searcher.budget",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.budget", "{epochs: 9}"}},
       "searcher.budget: is in epochs, but max_length is in batches; write "
       "{batches: N}, or a duration such as 8h"},
      {"searcher.cost",
       {{"searcher.name", "bayesian"},
        {"searcher.max_trials", "2"},
        {"searcher.cost", "money"}},
       "searcher.cost: expected one of time, length, got the string 'money'"},
      {"searcher.mode",
       {{"searcher.name", "adaptive_asha"},
        {"searcher.max_trials", "2"},
        {"searcher.mode", "standart"}},
       "searcher.mode: expected one of conservative, standard, aggressive, got "
       "the string 'standart'; did you mean 'standard'?"},
      {"searcher.max_rungs",
       {{"searcher.name", "adaptive_asha"},
        {"searcher.max_trials", "2"},
        {"searcher.max_rungs", "0"}},
       "searcher.max_rungs: expected an integer from 1 to 64, got the integer "
       "0"},
      {"searcher.bracket_rungs",
       {{"searcher.name", "adaptive_asha"},
        {"searcher.max_trials", "2"},
        {"searcher.bracket_rungs", "[2, 0]"}},
       "searcher.bracket_rungs[1]: expected an integer from 1 to 64, got the "
       "integer 0",
       4},
      {"searcher.stops",
       {{"searcher.stops", "[3, 4]"}},
       "searcher.stops: expected ascending lengths below max_length, got 4 "
       "before 4; sort them"},
      {"searcher.stops",
       {{"searcher.stops", "[2, 0]"}},
       "searcher.stops[1]: expected an integer of at least 1, got the integer "
       "0",
       4},
      {"searcher.points",
       {{"hyperparameters.x", "{type: int, minval: 1, maxval: 3}"},
        {"searcher.name", "random"},
        {"searcher.max_trials", "2"},
        {"searcher.points", "[{x: 4}]"}},
       "searcher.points[0].x: expected an integer from 1 to 3, got the integer "
       "4",
       5},
      {"searcher.warm_start",
       {{"searcher.warm_start", "[1]"}},
       "searcher.warm_start: only applies to bayesian_asha, not to single; "
       "remove it",
       -12},
      {"searcher.warm_start",
       {{"searcher.name", "bayesian_asha"},
        {"searcher.max_trials", "4"},
        {"searcher.warm_start", "12"}},
       "searcher.warm_start: expected a list of experiments, such as [12, "
       "label:NAME], got the integer 12"},
      {"searcher.warm_start",
       {{"searcher.name", "bayesian_asha"},
        {"searcher.max_trials", "4"},
        {"searcher.warm_start", "[1, 3.7]"}},
       "searcher.warm_start[1]: expected the ID of an experiment, such as 12, "
       "or label:NAME, got the number 3.7",
       4},
      {"searcher.warm_start",
       {{"searcher.name", "bayesian_asha"},
        {"searcher.max_trials", "4"},
        {"searcher.warm_start", "[{label: digits}]"}},
       "searcher.warm_start[0]: expected the ID of an experiment, such as 12, "
       "or label:NAME, got a map; write label:NAME without a space",
       1},
      {"searcher.source_trial_id",
       {{"searcher.source_trial_id", "one"}},
       "searcher.source_trial_id: expected a trial such as 3.7, got the string "
       "'one'"},
      {"searcher.source_checkpoint_uuid",
       {{"searcher.source_checkpoint_uuid", "xyz"}},
       "searcher.source_checkpoint_uuid: expected the UUID of a checkpoint or "
       "at least 4 characters of it, got the string 'xyz'"},
      {"reproducibility",
       {{"reproducibility", "7"}},
       "reproducibility: expected a map, got the integer 7"},
      {"reproducibility.experiment_seed",
       {{"reproducibility.experiment_seed", "2147483648"}},
       "reproducibility.experiment_seed: expected an integer from 0 to "
       "2147483647, got the integer 2147483648"},
      {"reproducibility.trial_seed",
       {{"searcher.name", "random"},
        {"searcher.max_trials", "2"},
        {"reproducibility.trial_seed", "5"}},
       "reproducibility.trial_seed: only applies to the searcher single; use "
       "experiment_seed"},
      {"reproducibility.trial_seed",
       {{"reproducibility.trial_seed", "-1"}},
       "reproducibility.trial_seed: expected an integer from 0 to 2147483647, "
       "got the integer -1"},
      {"reproducibility.deterministic",
       {{"reproducibility.deterministic", "on"}},
       "reproducibility.deterministic: expected true or false, got the string "
       "'on'"},
      {"resources",
       {{"resources", "cpu"}},
       "resources: expected a map, got the string 'cpu'"},
      {"resources.slots_per_trial",
       {{"resources.slots_per_trial", "0.3"}},
       "resources.slots_per_trial: expected an integer from 0 to 1024, 0.25, "
       "0.5, 0.75 or all, got the number 0.3"},
      {"resources.max_slots",
       {{"resources.max_slots", "0"}},
       "resources.max_slots: expected an integer from 1 to 100000, got the "
       "integer 0"},
      {"resources.max_slots",
       {{"resources.slots_per_trial", "2"}, {"resources.max_slots", "1"}},
       "resources.max_slots: is less than slots_per_trial (2), so no trial "
       "could run; raise it"},
      {"resources.slots",
       {{"resources.slots", "cpu:0"}},
       "resources.slots: expected auto, none, cpu, cpu:N or gpu:N (N from 1 to "
       "1024), most_free, a GPU's number or a list of them, got the string "
       "'cpu:0'"},
      {"resources.slots",
       {{"resources.slots", "[0, 0]"}},
       "resources.slots[1]: GPU 0 is listed twice; remove one",
       4},
      {"resources.slots_per_trial",
       {{"resources.listen", "0"}, {"resources.slots_per_trial", "all"}},
       "resources.slots_per_trial: all differs between machines; set a "
       "number, or remove listen"},
      {"resources.listen",
       {{"resources.listen", "node1"}},
       "resources.listen: expected a port from 0 to 65535 (0: any free one) or "
       "HOST:PORT, got the string 'node1'"},
      {"resources.listen",
       {{"resources.listen", "65536"}},
       "resources.listen: expected an integer from 0 to 65535, got the integer "
       "65536"},
      {"resources.local",
       {{"resources.local", "false"}},
       "resources.local: false leaves no machine to run trials; set "
       "resources.listen"},
      {"profiling",
       {{"profiling", "true"}},
       "profiling: expected a map, got the boolean true"},
      {"profiling.enabled",
       {{"profiling.enabled", "1"}},
       "profiling.enabled: expected true or false, got the integer 1"},
      {"environment",
       {{"environment", "[A=1]"}},
       "environment: expected a map, got a list"},
      {"environment.environment_variables",
       {{"environment.environment_variables", "[1A=2]"}},
       "environment.environment_variables: a name consists of letters, digits "
       "and underscores and does not start with a digit; write NAME=value",
       1},
      {"checkpoint_policy",
       {{"checkpoint_policy", "last"}},
       "checkpoint_policy: expected one of best, all, none, got the string "
       "'last'"},
      {"checkpoint_storage",
       {{"checkpoint_storage", "kept"}},
       "checkpoint_storage: expected a map, got the string 'kept'"},
      {"checkpoint_storage.type",
       {{"checkpoint_storage.type", "nfs"}},
       "checkpoint_storage.type: expected one of directory, shared_fs, got the "
       "string 'nfs'"},
      {"checkpoint_storage.container_path",
       {{"checkpoint_storage.path", "kept"},
        {"checkpoint_storage.container_path", "kept"}},
       "checkpoint_storage.container_path: means the same as path; remove one "
       "of them"},
      {"checkpoint_storage.storage_path",
       {{"checkpoint_storage.host_path", "kept"},
        {"checkpoint_storage.storage_path", "../out"}},
       "checkpoint_storage.storage_path: is outside host_path, @/page/kept; "
       "name a directory below it"},
      {"checkpoint_storage.save_experiment_best",
       {{"checkpoint_storage.save_experiment_best", "-1"}},
       "checkpoint_storage.save_experiment_best: expected an integer from 0 to "
       "1000000, got the integer -1"},
      {"checkpoint_storage.save_trial_best",
       {{"checkpoint_storage.save_trial_best", "1000001"}},
       "checkpoint_storage.save_trial_best: expected an integer from 0 to "
       "1000000, got the integer 1000001"},
      {"checkpoint_storage.save_trial_latest",
       {{"checkpoint_storage.save_trial_latest", "1.0"}},
       "checkpoint_storage.save_trial_latest: expected an integer from 0 to "
       "1000000, got the number 1.0; write 1"},
      {"checkpoint_storage.path",
       {{"checkpoint_storage.path", "missing"}},
       "checkpoint_storage.path: @/page/missing: does not exist"},
      {"checkpoint_storage.host_path",
       {{"checkpoint_storage.host_path", "missing"}},
       "checkpoint_storage.host_path: @/page/missing: does not exist"},
      {"checkpoint_storage.checkpoint_path",
       {{"checkpoint_storage.checkpoint_path", "missing"}},
       "checkpoint_storage.checkpoint_path: @/page/missing: does not exist"},
      {"optimizations",
       {{"optimizations", "[sink]"}},
       "optimizations: expected a map, got a list"},
      {"optimizations.aggregation_frequency",
       {{"optimizations.aggregation_frequency", "0"}},
       "optimizations.aggregation_frequency: expected an integer from 1 to "
       "1000000, got the integer 0"},
      {"optimizations.average_aggregated_gradients",
       {{"optimizations.average_aggregated_gradients", "1"}},
       "optimizations.average_aggregated_gradients: expected true or false, "
       "got the integer 1"},
      {"optimizations.average_training_metrics",
       {{"optimizations.average_training_metrics", "none"}},
       "optimizations.average_training_metrics: expected true or false, got "
       "the string 'none'"},
      {"optimizations.mixed_precision",
       {{"optimizations.mixed_precision", "O2"}},
       "optimizations.mixed_precision: expected one of none, tf32, bf16, fp16, "
       "O0, O1, got the string 'O2'; use 'O1' instead"},
      {"optimizations.loss_scale",
       {{"optimizations.mixed_precision", "fp16"},
        {"optimizations.loss_scale", "0"}},
       "optimizations.loss_scale: expected dynamic or a number above 0, got "
       "the integer 0"},
      {"optimizations.loss_scale",
       {{"optimizations.loss_scale", "2"}},
       "optimizations.loss_scale: only applies to mixed_precision: fp16; "
       "remove it"},
      {"optimizations.clip_gradients",
       {{"optimizations.clip_gradients", "{norm: 1, value: 1}"}},
       "optimizations.clip_gradients: expected exactly one of norm and value"},
      {"optimizations.clip_gradients.norm",
       {{"optimizations.clip_gradients.norm", "0"}},
       "optimizations.clip_gradients.norm: expected a number above 0, got the "
       "integer 0"},
      {"optimizations.clip_gradients.value",
       {{"optimizations.clip_gradients.value", "'1'"}},
       "optimizations.clip_gradients.value: expected a number above 0, got the "
       "string '1'; remove the quotes"},
      {"optimizations.sink_size",
       {{"optimizations.sink_size", "-2"}},
       "optimizations.sink_size: expected an integer from -1 to 1000000000, "
       "got the integer -2"},
      {"optimizations.dataset_sink_mode",
       {{"optimizations.dataset_sink_mode", "0"}},
       "optimizations.dataset_sink_mode: expected true or false, got the "
       "integer 0"},
      {"optimizations.channels_last",
       {{"optimizations.channels_last", "on"}},
       "optimizations.channels_last: expected auto, true or false, got the "
       "string 'on'"},
      {"optimizations.cuda_graphs",
       {{"optimizations.cuda_graphs", "always"}},
       "optimizations.cuda_graphs: expected auto, true or false, got the "
       "string 'always'"},
      {"optimizations.update_in_backward",
       {{"optimizations.update_in_backward", "auto"}},
       "optimizations.update_in_backward: expected true or false, got the "
       "string 'auto'"},
      {"optimizations.update_in_backward",
       {{"optimizations.aggregation_frequency", "2"},
        {"optimizations.update_in_backward", "true"}},
       "optimizations.update_in_backward: never holds all gradients at once, "
       "so it cannot be combined with clip_gradients, aggregation_frequency or "
       "fp16; turn one off"},
      {"early_stopping",
       {{"early_stopping", "{metric: loss}"}},
       "early_stopping.patience: required but missing; add it"},
      {"early_stopping.metric",
       {{"early_stopping.patience", "2"}, {"early_stopping.metric", "''"}},
       "early_stopping.metric: is empty; write a non-empty string"},
      {"early_stopping.patience",
       {{"early_stopping.patience", "0"}},
       "early_stopping.patience: expected an integer from 1 to 1000000, got "
       "the integer 0"},
      {"early_stopping.min_delta",
       {{"early_stopping.patience", "2"}, {"early_stopping.min_delta", "-0.1"}},
       "early_stopping.min_delta: expected a number of at least 0, got the "
       "number -0.1"},
      {"early_stopping.smaller_is_better",
       {{"early_stopping.patience", "2"},
        {"early_stopping.smaller_is_better", "smaller"}},
       "early_stopping.smaller_is_better: expected true or false, got the "
       "string 'smaller'"},
      {"type const",
       {{"hyperparameters.x", "{type: const}"}},
       "hyperparameters.x.val: required but missing; add it"},
      {"type int",
       {{"hyperparameters.x", "{type: int, minval: 1.5, maxval: 3}"}},
       "hyperparameters.x.minval: expected an integer from -1000000000000000 "
       "to 1000000000000000, got the number 1.5",
       20},
      {"type double",
       {{"hyperparameters.x",
         "{type: double, minval: 0, maxval: 1, log: true}"}},
       "hyperparameters.x.minval: expected a number above 0 with log: true, "
       "got 0",
       23},
      {"type double",
       {{"searcher.name", "grid"},
        {"hyperparameters.x", "{type: double, minval: 0, maxval: 1}"}},
       "hyperparameters.x.count: required by the grid searcher; set the number "
       "of values to try"},
      {"type log",
       {{"hyperparameters.x", "{type: log, minval: 1, maxval: 2, base: 0}"}},
       "hyperparameters.x.base: expected a number above 0 that is not 1, got "
       "the integer 0",
       40},
      {"type categorical",
       {{"hyperparameters.x", "{type: categorical, vals: []}"}},
       "hyperparameters.x.vals: is empty; add a value",
       26},
      {"type categorical",
       {{"hyperparameters.x", "{type: choice, vals: [1]}"}},
       "hyperparameters.x.type: expected const, int, double, log or "
       "categorical, got the string 'choice'; a nested map cannot have a key "
       "'type'",
       7},
  };
}

}  // namespace dtrain
