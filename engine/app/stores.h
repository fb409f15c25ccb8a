#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/app/notices.h"
#include "engine/store/store.h"

namespace dtrain {

class RunnerLock;
struct RunnerIdentity;
struct SlotWait;

/// Returns the store of this invocation: `--store`, else $DTRAIN_STORE, else
/// the nearest `.dtrain` upward that belongs to the user and that no one else
/// can write to, else `./.dtrain`, which may not exist yet. Warns about stores
/// that it skips. Absolute. Creates nothing. Throws Error(kStore) if
/// `./.dtrain` belongs to another user.
StoreLayout FindStore(const GlobalOptions& globals);
/// True if the store was named, or is in the working directory.
bool IsPlainlyChosen(const StoreLayout& layout, const GlobalOptions& globals);

/// Opens FindStore's store for reading.
Store OpenStore(const GlobalOptions& globals);

/// Opens the store at `layout` for writing; on a network file system only if
/// that is allowed.
Store OpenStoreForWriting(const StoreLayout& layout,
                          const GlobalOptions& globals);

/// An experiment or one of its trials.
struct Target {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;

  bool operator==(const Target&) const = default;
};

/// "3" or "3.7".
std::string ToString(const Target& target);

/// Parses "3" or "3.7". Throws Error(kUsage) for anything else.
Target ParseTarget(const std::string& text);

// The Resolve functions are the one place where the arguments EXP and EXP.T of
// all commands get their meaning. In this order, an argument is
//   3, 3.7     numbers, whether there is such an experiment or not,
//   last       the newest experiment, archived or not,
//   3-7        those of these experiments that exist, at least one,
//   NAME       the only experiment of this name,
//   last.2, NAME.2  a trial of such an experiment.
// Where a number has the form of a name, the number is meant; `last` and ranges
// are refused if another experiment has them as its name. They throw
// Error(kNotFound) for a name or range without an experiment, and Error(kUsage)
// for a name of several experiments, or of another form than is expected.

/// Returns the experiment or trial that an argument names.
Target ResolveTarget(const Store& store, const std::string& text);
/// Returns the experiment that an argument names.
std::int64_t ResolveExperiment(const Store& store, const std::string& text);
/// Returns the trial that an argument names. Throws Error(kUsage) for an
/// experiment.
TrialId ResolveTrial(const Store& store, const std::string& text);
/// Returns the experiments and trials that arguments name, those of ranges in
/// increasing order. One may come twice.
std::vector<Target> ResolveTargets(const Store& store,
                                   const std::vector<std::string>& words);
/// Returns the experiments that arguments name, each once.
std::vector<std::int64_t> ResolveExperiments(
    const Store& store, const std::vector<std::string>& words);
/// Returns the experiment or trial that an argument names where a checkpoint
/// may stand, too; nothing if the text is the start of a UUID, or may be one
/// without a checkpoint. Numbers of at least 4 digits and names are experiments
/// only if no checkpoint starts with them; a number of an existing experiment
/// is always one.
std::optional<Target> ResolveSource(const Store& store,
                                    const std::string& text);

/// Returns the row with its current state (INTERRUPTED if its runner died).
/// Throws Error(kNotFound).
ExperimentRow FindExperiment(const Store& store, std::int64_t id);
ExperimentDetail FindExperimentDetail(const Store& store, std::int64_t id);
/// Like FindExperiment, but the trial must exist, too, if one is named.
ExperimentRow FindTarget(const Store& store, const Target& target);

/// Returns the checkpoint whose UUID starts with `prefix`, at least 4
/// characters. Throws Error(kNotFound) if there is none, or its files are
/// deleted.
CheckpointRow FindCheckpoint(const Store& store, const std::string& prefix);

/// Returns the best of a trial's COMPLETED checkpoints by the searcher's
/// metric, the earliest of equal ones; nothing if none has a finite value.
/// `rows` are the checkpoints of `experiment`.
std::optional<CheckpointRow> BestSavedCheckpoint(
    const std::vector<CheckpointRow>& rows, const ExperimentRow& experiment,
    std::int64_t trial);
/// Returns "trial 3.7: its best validation (loss 0.2 at batch 40) has no
/// checkpoint; the best one with a checkpoint is UUID (0.3 at batch 80)".
/// `saved` is the result of BestSavedCheckpoint.
/// REQUIRES: the trial has a best validation.
std::string NoBestCheckpointText(const TrialRow& trial,
                                 const ExperimentRow& experiment,
                                 const std::optional<CheckpointRow>& saved,
                                 const Units& units);
/// Throws Error(kNotFound) that says how a trial gets a checkpoint.
[[noreturn]] void FailNoCheckpoint(const Store& store, TrialId trial);
/// Returns the checkpoint of the best validation of a trial or, for an
/// experiment, of its best trial. Throws Error(kNotFound) if it has none,
/// naming the best existing checkpoint.
CheckpointRow FindBestCheckpoint(const Store& store, const Target& target);
/// Returns the latest checkpoint of a trial or, for an experiment, of its only
/// trial. Throws Error(kNotFound), Error(kUsage) if it has several trials.
CheckpointRow FindLatestCheckpoint(const Store& store, const Target& target);
/// Returns the checkpoint that `text` names: the start of its UUID, or an
/// experiment or trial, as ResolveSource has them, for its best checkpoint or,
/// if `latest`, its latest one. Throws Error(kNotFound), and Error(kUsage) for
/// `latest` with a UUID.
CheckpointRow FindSourceCheckpoint(const Store& store, const std::string& text,
                                   bool latest);
/// Returns the trial that `target` names, or the only one of its experiment.
/// Throws Error(kNotFound), Error(kUsage) if it has several.
TrialRow FindOnlyTrial(const Store& store, const Target& target);

/// Key of provenance: the origin of an experiment that `dtrain import-results`
/// has recorded, which no process ran.
inline constexpr char kImported[] = "imported";

/// Returns "experiment 5 was imported from results.csv"; empty for others.
std::string ImportedText(const ExperimentDetail& experiment);
/// Throws Error(kUsage) with what to do if the experiment was imported, so that
/// it has no program to run.
void RequireNotImported(const ExperimentDetail& experiment);

/// Throws Error(kUsage) unless all experiments have the same metric, with the
/// same better direction.
void RequireOneMetric(const std::vector<ExperimentRow>& experiments);

/// Returns all experiments with their current states.
std::vector<ExperimentRow> ListExperiments(const Store& store, bool archived);

/// Returns the trials of `experiment` with their current states.
std::vector<TrialRow> ListTrials(const Store& store,
                                 const ExperimentRow& experiment,
                                 TrialParts parts = {});
/// Returns the PointText of the best point of an experiment with repeats;
/// empty for others, and if there is none.
std::string BestPointText(const Store& store, const ExperimentRow& experiment,
                          const std::vector<TrialRow>& trials);
/// Returns one trial. Throws Error(kNotFound).
TrialRow FindTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number);

/// Experiments and trials of a store that are waiting for slots, read once from
/// the tickets of this machine's slot queue.
class SlotQueueView {
 public:
  explicit SlotQueueView(const Store& store);
  SlotQueueView(const SlotQueueView&) = delete;
  SlotQueueView& operator=(const SlotQueueView&) = delete;
  ~SlotQueueView();

  /// Returns the wait of a running experiment none of whose trials has a slot,
  /// else nullptr.
  const SlotWait* FindWait(const ExperimentRow& row) const;
  const SlotWait* FindWait(const TrialRow& row) const;

 private:
  std::vector<SlotWait> waits_;
};

/// Returns the unit that the experiment's `batches` count.
Unit CountedUnit(const Store& store, std::int64_t experiment);
/// Returns it for commands that do not need the recorded configuration; nothing
/// if that is damaged or of another version.
std::optional<Unit> FindCountedUnit(const Store& store,
                                    std::int64_t experiment);
/// Returns it with the unit of the search.
Units FindUnits(const Store& store, std::int64_t experiment);
/// True if the epochs of the experiment's reports are known: a program that
/// counts batches or records reports none, which is stored as 0.
bool KnowsEpochs(const Store& store, std::int64_t experiment);

/// Units of the experiments' batches as a warning about comparing them:
/// "experiment 5 counts epochs, experiment 6 batches"; empty if they are the
/// same. REQUIRES: experiments and units have one size.
std::string DifferentUnitsText(const std::vector<std::int64_t>& experiments,
                               const std::vector<Unit>& units);

/// Returns "RUNNING", or "RUNNING (waiting)" if it waits for slots.
std::string StateText(State state, const SlotWait* wait);

/// Returns "dtrain", with `--store` if that was given.
std::string ProgramFor(const GlobalOptions& globals);

/// Returns the command line for `arguments` on this store.
std::string CommandFor(const GlobalOptions& globals,
                       const std::string& arguments);

/// Opens the store of this invocation for writing. Throws Error(kNotFound)
/// unless it contains all `experiments`; does not create a missing store.
Store OpenStoreToChange(const GlobalOptions& globals,
                        const std::vector<std::int64_t>& experiments);

/// Throws Error(kStore), which names the runner and `remedy`, if the experiment
/// is running.
void RequireNoRunner(const Store& store, std::int64_t experiment,
                     const std::string& remedy);

/// Takes the experiment's runner lock, so that it cannot start meanwhile;
/// nothing if it has no directory for a lock. Throws Error(kStore) that names
/// its runner.
std::optional<RunnerLock> LockExperiment(const Store& store,
                                         std::int64_t experiment);

/// "process 12 on box".
std::string RunnerText(const RunnerIdentity& runner);

}  // namespace dtrain
