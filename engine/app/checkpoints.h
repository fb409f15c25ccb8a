#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/app/notices.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/experiment_config.h"
#include "engine/store/store.h"

namespace dtrain {

/// How a checkpoint's files are.
enum class FileState { kGood, kBad, kUnreadable };

struct FileReport {
  FileState state = FileState::kGood;
  std::string problem;  // in words that name the file; empty if good
};

/// Throws Error(kStore) where the directory that checkpoint_storage named for
/// it is not there: not mounted, say. That does not make it damaged.
void RequireStorageThere(const Store& store, const CheckpointRow& checkpoint);

/// All files of the checkpoint, each compared with its SHA-256 in the manifest,
/// and the manifest with the record. Throws Error(kDamaged) that names what is
/// not as it was, Error(kFailed) if this user may not read it, Error(kNotFound)
/// if it was deleted while it was read.
CheckpointFiles ReadCheckpoint(const Store& store,
                               const CheckpointRow& checkpoint);

/// Whether ReadCheckpoint reads it. kUnreadable: this user may not, so nothing
/// is known.
FileReport VerifyCheckpoint(const Store& store,
                            const CheckpointRow& checkpoint);

/// Looks at the directory and the manifest, and at the size of each file: a
/// moment even for large ones.
FileReport GlanceAtCheckpoint(const Store& store,
                              const CheckpointRow& checkpoint);

/// What provenance calls the checkpoint that trials began from.
inline constexpr char kForkedFrom[] = "forked_from";

/// The checkpoint that a new experiment's trials begin from.
struct SourceCheckpoint {
  std::string uuid;
  TrialId trial;                    // that made it
  std::filesystem::path directory;  // where its files are now
  nlohmann::json origin;            // {"trial", "checkpoint", "batches"}
};

/// The checkpoint `row`. Throws Error(kDamaged) unless it verifies.
SourceCheckpoint SourceFrom(const Store& store, const CheckpointRow& row);

/// The latest checkpoint of the trial that verifies; says which were passed
/// over. Throws Error(kNotFound) if there is none.
SourceCheckpoint SourceFrom(const Store& store, TrialId trial,
                            const GlobalOptions& globals);

/// The one that `config` asks for, which then names it by its whole UUID; none
/// if it asks for none. The store is opened only to look for it.
std::optional<SourceCheckpoint> FindSource(ExperimentConfig& config,
                                           const GlobalOptions& globals);

/// The one that the recorded experiment began from: it keeps it, whatever
/// becomes of the trial that made it. None if it began from none.
std::optional<SourceCheckpoint> SourceOf(const Store& store,
                                         const ExperimentDetail& experiment);

/// Names it in the configuration by its whole UUID.
void SetSource(const SourceCheckpoint& start, ExperimentConfig& config);

}  // namespace dtrain
