#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/app/checkpoints.h"
#include "engine/context/context_list.h"

namespace dtrain {

class Store;
class StoreLayout;
enum class ErrorKind;
enum class StrayFiles;
struct Diagnostic;
struct ExperimentConfig;
struct ExperimentDetail;
struct GlobalOptions;
struct SlotPlan;

/// Parts of a new experiment besides its configuration.
struct ExperimentParts {
  std::optional<ContextList> context;
  std::optional<SourceCheckpoint> source;
  nlohmann::json warm_start;            // see ResolveWarmStart
  std::optional<std::int64_t> threads;  // of each process; none: as planned
  bool one_process = false;             // see RecordOptions
  bool paused = false;                  // see RecordOptions
};

/// CreateExperiment with all these parts stored with it, what they are added
/// to `provenance`: an experiment that is recorded has all of them.
std::int64_t RecordExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              nlohmann::json provenance,
                              const ExperimentParts& parts);

/// Returns the problem that keeps checkpoints from being stored in
/// checkpoint_storage, or nothing.
std::optional<std::pair<Diagnostic, ErrorKind>> FindStorageProblem(
    const ExperimentConfig& config, const GlobalOptions& globals);
/// Throws that as an Error.
void RequireStorage(const ExperimentConfig& config,
                    const GlobalOptions& globals);

/// The files of `directory` that are to be stored with the experiment; none if
/// it runs without them. Neither the store of this invocation is among them,
/// nor the directory of its checkpoints, nor, where it has values of
/// environment variables, `config_file`. Says what was left out. Throws
/// Error(kUsage) as ListContext.
std::optional<ContextList> FindContext(const ExperimentConfig& config,
                                       const std::filesystem::path& directory,
                                       const std::string& config_file,
                                       const GlobalOptions& globals);

/// The stored context of the experiment, or none if it has none. Throws
/// Error(kDamaged) if it is not as it was recorded.
std::optional<ContextList> ReadStoredContext(const StoreLayout& layout,
                                             const ExperimentDetail& detail);

/// Returns the stored context of the experiment for a new one with this
/// configuration: its declared links are those of `config`, and stored files of
/// which a link now takes the place are left out. Found links stay unless a
/// declared one is within or around them. Warns of missing directories whose
/// names are similar to that of another. None if it has none. Throws as
/// ReadStoredContext and FindContext.
std::optional<ContextList> FindRecordedContext(const StoreLayout& layout,
                                               const ExperimentDetail& detail,
                                               const ExperimentConfig& config,
                                               const GlobalOptions& globals);

/// Which files beside those of its list the experiment's stored context may
/// have: what is compiled from it must have no others.
StrayFiles StrayPolicy(const ExperimentDetail& detail);

/// Throws Error(kStore) that names the file and what to do, unless the stored
/// context of the experiment is as it was recorded and nobody else could change
/// it. To be called before anything is executed from it or a copy of it.
void RequireWholeContext(const StoreLayout& layout,
                         const ExperimentDetail& detail);

/// Says what the copies of the context that commands work in take, where that
/// is much and the file system of the store shares no blocks.
void WarnAboutCopies(const StoreLayout& layout, const ExperimentConfig& config,
                     const SlotPlan& slots, const ContextList& context,
                     const GlobalOptions& globals);

/// {"files", "bytes", "hash", "links"} of a recorded context; null without
/// one.
nlohmann::json ContextJson(const nlohmann::json& provenance);

/// "12 files, 34.1 KB".
std::string ContextSize(std::int64_t files, std::int64_t bytes);

}  // namespace dtrain
