#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/context/working_tree.h"
#include "engine/store/store.h"

namespace dtrain {

/// Returns the files that a trial's program wrote in its working directory, by
/// path: those that are not in a checkpoint, and none of the experiment's own.
std::vector<WrittenFile> ListTrialFiles(const Store& store, TrialId trial);

/// Returns "model.pt and 2 more files, 14 MB", the largest first; empty without
/// files.
std::string TrialFilesText(const std::vector<WrittenFile>& files);

/// Returns ": " and what copies a trial's files, as a remark on a trial without
/// a checkpoint; empty without files. `program` as ProgramFor returns it.
std::string TrialFilesRemark(const Store& store, TrialId trial,
                             const std::string& program);

/// Returns the numbers of the trials whose files `gc` leaves alone: of an
/// experiment that has not ended, all; of one that is COMPLETED, the best
/// max(1, `save_experiment_best`); otherwise none.
std::set<std::int64_t> TrialsThatKeepFiles(const std::vector<TrialRow>& trials,
                                           const ExperimentRow& experiment,
                                           std::int64_t save_experiment_best);

}  // namespace dtrain
