#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/os/file_lock.h"
#include "engine/store/rows.h"

namespace dtrain {

class Store;
class TrialSelection;

/// Number of trials and values that an export wrote.
struct ExportedCounts {
  std::int64_t trials = 0;
  std::int64_t values = 0;
};

/// A directory with experiments as TensorBoard's event files: one subdirectory
/// for each trial, 3.7, and a file with the columns of the table HPARAMS. Its
/// file dtrain-export.json records how far each trial was exported, so that
/// another export adds only what is new. A trial that was resumed is written
/// again, since values after its checkpoint no longer count.
class TensorboardExport {
 public:
  /// Creates the directory, or opens that of an earlier export. Throws
  /// Error(kUsage) for a directory with other files, Error(kStore) if another
  /// export is writing to it, Error(kDiskFull).
  explicit TensorboardExport(std::filesystem::path directory);

  /// Adds the new values of an experiment's selected trials. Throws
  /// Error(kNotFound) if it no longer exists, Error(kUsage) if the directory
  /// has an experiment of this number from another store, Error(kDiskFull).
  ExportedCounts Update(const Store& store, std::int64_t experiment,
                        const TrialSelection& selection);

 private:
  struct TrialFile;

  bool IsDone(const TrialRow& row) const;
  TrialFile Open(const TrialRow& row,
                 const std::vector<std::string>& with_parts) const;
  void RequireSameExperiment(const ExperimentRow& row);
  void Write(TrialFile& file);
  void WriteAll(const Store& store, std::int64_t experiment,
                std::map<std::int64_t, TrialFile>& files);
  void WriteTable(double time);
  void AddColumns(const ExperimentDetail& detail);
  void Save();

  const std::filesystem::path directory_;
  FileLock lock_;
  // {"version", "experiments": {"3": {"created"}}, "trials": {"3.7": {"runs",
  // "bytes", "training", "validation", "ended"}}, "columns", "metrics"}.
  nlohmann::json state_;
  std::string saved_;  // the record as it was last written
};

}  // namespace dtrain
