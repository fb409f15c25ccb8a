#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/run/reporter.h"

namespace dtrain {

/// Input of a summary beside the result.
struct SummaryContext {
  std::string metric;
  nlohmann::json hyperparameters;  // of the configuration: what was searched
  std::map<State, std::int64_t> trials;  // how many there are of each state
  std::int64_t killed = 0;  // … that are CANCELED for being killed
  State best_state = State::kCompleted;  // of the best trial
  std::string command;                   // "dtrain" or "dtrain --store DIR"
  // "model.pt, 14 MB: dtrain files 4.2", of the best trial.
  std::string best_files;
  std::string best_point;  // "point 4, mean 0.3 of 3 repeats"; or empty
  std::string max_length;  // of the search: "900 batches"
  Units units;
  // Trials that ended before their length, and why the first of them did.
  std::int64_t early = 0;
  std::string why_early;  // "trial 1.1 ended early: ..."
  std::string use;        // of slots, GPUs and CPUs, as SummarizeUse; or empty
};

/// Returns the summary of a finished run: the states of its trials if there are
/// several, the best trial, and commands to inspect it.
std::string SummaryText(const RunResult& result, const SummaryContext& context);

}  // namespace dtrain
