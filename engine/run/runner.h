#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/process/local_launcher.h"
#include "engine/run/reporter.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {

/// The slots that an experiment would have on this machine now. Throws
/// Error(kResources) where what it asks for can never be had here.
SlotPlan PlanExperimentSlots(const ExperimentConfig& config);

/// Where the commands of a recorded experiment are executed: in its own copy of
/// its files, else where these lay when it was created.
std::string ContextOf(const StoreLayout& layout,
                      const ExperimentDetail& detail);

/// Whether the entrypoint is a command, not a model.
bool IsCommand(const ExperimentConfig& config);

/// What the `batches` of the experiment's record count, as far as it tells: a
/// command that reports no batches is counted in epochs or records.
Unit CountedUnit(const Store& store, std::int64_t experiment,
                 const ExperimentConfig& config);
/// The same of one report of a command: `batches` at this `epoch`, 0 if it told
/// none. Without max_length the report is all that tells.
Unit CountedUnit(const ExperimentConfig& config, std::int64_t batches,
                 double epoch);

/// The key of provenance that says whether a search goes on although its first
/// trial has not read what is searched. Without it, as in experiments of
/// earlier versions, it does.
inline constexpr char kAllowUnread[] = "allow_unread";

/// How the reason of a trial begins that ended before its length by itself.
inline constexpr std::string_view kEndedEarly = "ended early";

/// What is asked of the recording of an experiment.
struct RecordOptions {
  // Intra-op threads of a process on CPU slots; none: as many as are planned.
  std::optional<std::int64_t> threads;
  // A trial is one process, whatever its slots, as it was in earlier versions.
  bool one_process = false;
  // Directory that its checkpoints go to, absolute; empty: the store.
  std::string storage;
  // Called with the id while it is being recorded; what it throws undoes it.
  std::function<void(std::int64_t)> place;
};

/// Records a new experiment, PENDING, and gives its id. Draws the seed if the
/// configuration has none. `yaml` is the text as the user wrote it.
std::int64_t CreateExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              const nlohmann::json& provenance, Clock clock,
                              const RecordOptions& options = {});

/// Makes what runs the trials.
using MakeLauncher =
    std::function<std::unique_ptr<Launcher>(LocalLauncherOptions options)>;

struct RunOptions {
  std::optional<Duration> timeout;  // pause after this time
  // So long may trials wait for disk space before the run is paused; none: as
  // long as it takes.
  std::optional<Duration> disk_wait;
  bool detached = false;  // SIGHUP is ignored
  std::string library;    // of the user's own model; empty: one of this build's
  MakeLauncher make_launcher;  // empty: a LocalLauncher
};

/// Runs experiment `id` until it ends, is paused or interrupted: takes its
/// lock, goes on from what is recorded, starts trials and records all that
/// they say. Blocks SIGINT, SIGTERM and SIGHUP in this process and handles
/// them. `environment` is for the trials only. Throws Error(kNotFound),
/// Error(kStore) if another runner holds it (naming its pid and host) or the
/// store fails, Error(kResources).
RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        Clock clock);

}  // namespace dtrain
