#pragma once

#include <map>
#include <string>
#include <tuple>

#include "tests/support/cli_runner.h"

namespace dtrain {

/// kind, batches, name → value
using TrialMetrics =
    std::map<std::tuple<std::string, int, std::string>, double>;

/// What `dtrain metrics` says of the trial.
inline TrialMetrics MetricsOf(const CliRunner& dtrain,
                              const std::string& trial) {
  TrialMetrics metrics;
  const nlohmann::json said = dtrain.Run({"metrics", trial, "--json"}).Json();
  for (const nlohmann::json& row : said.at("metrics")) {
    metrics[{row.at("kind"), row.at("batches"), row.at("name")}] =
        row.at("value").get<double>();
  }
  return metrics;
}

}  // namespace dtrain
