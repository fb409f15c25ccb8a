#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/run/reporter.h"

namespace dtrain {

// What happens in a run, as lines for people. All of them are escaped.

/// "experiment 3 'digits': single search of accuracy on 2 CPU slots, seed 12".
std::string BeginLine(const RunInfo& info);
/// How a trial came to its process.
enum class StartKind {
  kStarted,   // for the first time, or from nothing
  kResumed,   // from a checkpoint
  kPromoted,  // from a checkpoint, as the searcher wants more of it
};

/// Tells promotions from other starts: what was paused in this run had done
/// all that was asked of it, and starts again only if the searcher wants more.
class PausedTrials {
 public:
  void NoteEnd(const TrialRow& trial);
  StartKind NoteStart(TrialId trial, std::int64_t from_batches);
  /// Whether the trial, which was just stopped, had been paused.
  bool NoteStop(TrialId trial) { return paused_.erase(trial) > 0; }

 private:
  std::set<TrialId> paused_;
};

/// Tells when it is to be said that trials wait for slots: once where none
/// runs, and then again only after one did.
class SlotWaitNotice {
 public:
  bool IsDue(const RunStatus& status);

 private:
  bool said_ = false;
};

/// "3.1 started: lr=0.01", or "3.1 goes on from batch 6000: …". The
/// hyperparameters that `info` says are searched.
std::string StartedLine(const RunInfo& info, const TrialRow& trial,
                        StartKind kind, std::int64_t from_batches);
std::string TrainingLine(const RunInfo& info, TrialId trial,
                         const TrainingReport& report);
std::string ValidationLine(const RunInfo& info, TrialId trial,
                           const ValidationReport& report, bool best);
std::string CheckpointLine(const RunInfo& info, TrialId trial,
                           const CheckpointSaved& saved);

/// A line that a trial has printed: as it is of the only trial, of a search
/// after the trial's id; of other ranks than the first with the rank. Of a line
/// that was overwritten by '\r', what stands in the end.
std::string CheckpointFailedText(const RunInfo& info, TrialId trial,
                                 const CheckpointFailed& failed);
std::string OutputLine(const RunInfo& info, TrialId trial,
                       const LogRecord& record);

/// Whether the trial ended in a way that a user must see.
bool IsFailure(const TrialRow& trial);
/// How it ended and why, of a search with its last validation; for a failure
/// also the last lines of its log.
std::vector<std::string> EndedLines(const RunInfo& info, const TrialRow& trial,
                                    const std::vector<std::string>& last_lines);

/// Whether the run has many trials, whose every validation would be too much.
bool IsSearch(const RunInfo& info);

}  // namespace dtrain
