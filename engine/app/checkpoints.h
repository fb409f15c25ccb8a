#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/wire/trial_spec.h"

namespace dtrain {

class Store;
struct CheckpointFiles;
struct CheckpointRow;
struct ExperimentConfig;
struct ExperimentDetail;
struct GlobalOptions;

/// State of a checkpoint's files.
enum class FileState { kGood, kBad, kUnreadable };

struct FileReport {
  FileState state = FileState::kGood;
  std::string problem;  // in words that name the file; empty if good
};

/// Throws Error(kStore) if the checkpoint_storage directory of the checkpoint
/// does not exist, e.g. because it is not mounted. The checkpoint is not
/// damaged then.
void RequireStorageThere(const Store& store, const CheckpointRow& checkpoint);

/// Reads all files of the checkpoint, and compares each with its SHA-256 in the
/// manifest, and the manifest with the database. Throws Error(kDamaged) that
/// names a file that differs, Error(kFailed) if this user may not read it,
/// Error(kNotFound) if it was deleted meanwhile.
CheckpointFiles ReadCheckpoint(const Store& store,
                               const CheckpointRow& checkpoint);

/// Reports whether ReadCheckpoint succeeds. kUnreadable: this user may not read
/// it, so its state is unknown.
FileReport VerifyCheckpoint(const Store& store,
                            const CheckpointRow& checkpoint);

/// Checks the directory, the manifest, and the size of each file: fast even for
/// large checkpoints.
FileReport GlanceAtCheckpoint(const Store& store,
                              const CheckpointRow& checkpoint);

/// Key of the source checkpoint in provenance.
inline constexpr char kForkedFrom[] = "forked_from";

/// The checkpoint that the trials of a new experiment start from.
struct SourceCheckpoint {
  std::string uuid;
  TrialId trial;                    // that made it
  std::filesystem::path directory;  // where its files are now
  nlohmann::json origin;            // {"trial", "checkpoint", "batches"}
};

/// Returns the checkpoint `row`. Throws Error(kDamaged) unless it verifies.
SourceCheckpoint SourceFrom(const Store& store, const CheckpointRow& row);

/// Returns the latest intact checkpoint of the trial; warns about those it
/// skips. Throws Error(kNotFound) if there is none.
SourceCheckpoint SourceFrom(const Store& store, TrialId trial,
                            const GlobalOptions& globals);

/// Returns the source checkpoint that `config` requests, and sets its whole
/// UUID in `config`; nothing if it requests none. Opens the store only if
/// needed.
std::optional<SourceCheckpoint> FindSource(ExperimentConfig& config,
                                           const GlobalOptions& globals);

/// Returns the source checkpoint of a recorded experiment, which keeps a copy
/// of it; nothing if it has none.
std::optional<SourceCheckpoint> FindRecordedSource(
    const Store& store, const ExperimentDetail& experiment);

/// Sets the source checkpoint in the configuration by its whole UUID.
void SetSource(const SourceCheckpoint& start, ExperimentConfig& config);

}  // namespace dtrain
