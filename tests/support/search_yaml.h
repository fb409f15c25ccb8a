#pragma once

#include <string>

namespace dtrain {

/// A search over builtin:FaultTrial: `x` is drawn, step_ms is 5; `searcher` is
/// the rest of that section in YAML's flow style. One CPU slot, so that trials
/// come one after another, unless `slots` says otherwise.
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
