#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/reporter.h"

namespace dtrain {

// What happens in a run, as lines for people. All of them are escaped.

/// "experiment 3 'digits': single search of accuracy on 2 CPU slots, seed 12".
std::string BeginLine(const RunInfo& info);
/// "3.1 started: lr=0.01", or "3.1 goes on from batch 6000: …".
std::string StartedLine(const TrialRow& trial, std::int64_t from_batches);
std::string TrainingLine(TrialId trial, const TrainingReport& report);
std::string ValidationLine(TrialId trial, const ValidationReport& report,
                           bool best);
std::string CheckpointLine(TrialId trial, const CheckpointSaved& saved);

/// Whether the trial ended in a way that a user must see.
bool IsFailure(const TrialRow& trial);
/// How it ended; for a failure also the last lines of its log.
std::vector<std::string> EndedLines(const TrialRow& trial,
                                    const std::vector<std::string>& last_lines);

}  // namespace dtrain
