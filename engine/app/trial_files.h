#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/length.h"
#include "engine/context/working_tree.h"
#include "engine/store/store.h"

namespace dtrain {

/// Returns the directory that a trial's program works in; the whole working
/// tree if it is not known which part of it.
std::filesystem::path FindTrialDirectory(const Store& store, TrialId trial);

/// Returns the files that a trial's program wrote in its working directory, by
/// path: those that are not in a checkpoint, and none of the experiment's own.
std::vector<WrittenFile> ListTrialFiles(const Store& store, TrialId trial);

/// Returns "model.pt and 2 more files, 14 MB", the largest first; empty without
/// files.
std::string TrialFilesText(const std::vector<WrittenFile>& files);

/// Returns TrialFilesText and the command that lists them, "model.pt, 14 MB:
/// dtrain files 4.2"; empty without files. `program` as ProgramFor returns it.
std::string TrialFilesCommand(const std::vector<WrittenFile>& files,
                              TrialId trial, const std::string& program);
/// Returns "; its program wrote " and TrialFilesCommand, as a remark on a trial
/// without a checkpoint; empty without files.
std::string TrialFilesRemark(const Store& store, TrialId trial,
                             const std::string& program);

/// Returns "; the trial went on to epoch 8", if it did after its best
/// validation, whose model its files may not have; else empty.
std::string FilesLaterThanBest(const TrialRow& trial, const Units& units);

/// True for a name that is usual for a directory of outputs, such as `runs` or
/// `checkpoints`: a link to it would let trials overwrite each other's files.
bool IsOutputName(std::string name);

/// A directory that trials have filled with the same large files.
struct RepeatedFiles {
  std::string directory;    // in each trial's working directory: "data"
  std::int64_t trials = 0;  // of the first 32
  std::int64_t bytes = 0;   // of one trial
};

/// Finds what several trials of an experiment wrote alike, of 1 MB or more each
/// and not below an output's name: most likely a download. Returns the largest,
/// if any. Compares the first 16 MB of files of equal path and size.
std::optional<RepeatedFiles> FindRepeatedFiles(const Store& store,
                                               std::int64_t experiment);

/// Returns the numbers of the trials whose files `gc` leaves alone: of an
/// experiment that has not ended, all; of one that is COMPLETED, the best
/// max(1, `save_experiment_best`); otherwise none.
std::set<std::int64_t> TrialsThatKeepFiles(const std::vector<TrialRow>& trials,
                                           const ExperimentRow& experiment,
                                           std::int64_t save_experiment_best);
/// Reads the trials, and the configuration of one that is COMPLETED.
std::set<std::int64_t> TrialsThatKeepFiles(const Store& store,
                                           const ExperimentRow& experiment);

}  // namespace dtrain
