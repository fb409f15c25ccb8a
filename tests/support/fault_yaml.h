#pragma once

#include <string>

namespace dtrain {

/// An experiment of one builtin:FaultTrial, `hparams` in YAML's flow style.
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

}  // namespace dtrain
