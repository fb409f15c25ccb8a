#pragma once

#include <string>

namespace dtrain {

/// Returns an experiment with one builtin:FaultTrial; `hparams` is YAML in flow
/// style.
inline std::string FaultYaml(const std::string& hparams, int batches,
                             const std::string& rest = "") {
  return "name: fault\n"
         "entrypoint: builtin:FaultTrial\n"
         "hyperparameters: {" +
         hparams +
         "}\n"
         "searcher: {name: single, metric: loss, max_length: " +
         std::to_string(batches) +
         "}\n"
         "scheduling_unit: 10\n"
         "min_validation_period: 20\n"
         "max_restarts: 0\n"
         "resources: {slots: cpu}\n" +
         rest;
}

/// Returns a search over builtin:FaultTrial that samples `x`; step_ms is 5.
/// `searcher` is the rest of that section in flow style. By default there is
/// one CPU slot, so that trials run one after another.
inline std::string SearchYaml(const std::string& searcher,
                              const std::string& slots = "cpu:1",
                              const std::string& rest = "") {
  return "name: search\n"
         "entrypoint: builtin:FaultTrial\n"
         "hyperparameters:\n"
         "  x: {type: double, minval: 0, maxval: 1, count: 8}\n"
         "  step_ms: 5\n"
         "searcher: {metric: loss, " +
         searcher +
         "}\n"
         "scheduling_unit: 4\n"
         "max_restarts: 0\n"
         "reproducibility: {experiment_seed: 11}\n"
         "resources: {slots: \"" +
         slots + "\"}\n" + rest;
}

}  // namespace dtrain
