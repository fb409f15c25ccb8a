#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/app/notices.h"
#include "engine/app/stores.h"
#include "engine/run/runner_lock.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"

namespace dtrain {

/// The store of this invocation: `--store`, else $DTRAIN_STORE, else the
/// nearest `.dtrain` upward that is the user's own and nobody else's to write
/// to, else `./.dtrain`, which may not exist yet. Says which others it passes
/// over. Absolute. Creates nothing. Throws Error(kStore) where `./.dtrain` is
/// another user's.
StoreLayout FindStore(const GlobalOptions& globals);
/// Whether that was named, or is in the working directory.
bool IsPlainlyChosen(const StoreLayout& layout, const GlobalOptions& globals);

/// FindStore, opened for reading.
Store OpenStore(const GlobalOptions& globals);

/// The store at `layout`, opened for writing; on a network file system only
/// where that is allowed.
Store OpenStoreForWriting(const StoreLayout& layout,
                          const GlobalOptions& globals);

/// What a user names: an experiment, or one of its trials.
struct Target {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;
};

/// "3" or "3.7". Throws Error(kUsage) for anything else.
Target ParseTarget(const std::string& text);
/// "3". Throws Error(kUsage) for anything else.
std::int64_t ParseExperimentId(const std::string& text);
/// True if `text` names an experiment or a trial ("3", "3.7") and not a
/// checkpoint. At least 4 digits are the prefix of a UUID where there is no
/// such experiment.
bool IsTarget(const Store& store, const std::string& text);

/// The row, its state as users see it (INTERRUPTED where its runner died).
/// Throws Error(kNotFound) with what to do.
ExperimentRow FindExperiment(const Store& store, std::int64_t id);
ExperimentDetail FindExperimentDetail(const Store& store, std::int64_t id);
/// FindExperiment, and its trial must be there as well if one is named.
ExperimentRow FindTarget(const Store& store, const Target& target);

/// The checkpoint whose UUID begins so, in at least 4 characters. Throws
/// Error(kNotFound) with what to do if there is none, or its files are deleted.
CheckpointRow FindCheckpoint(const Store& store, const std::string& prefix);

/// The best of a trial's COMPLETED checkpoints by the searcher's metric, of
/// equals the earliest; none if no checkpoint has a finite one. `rows` are the
/// checkpoints of `experiment`.
std::optional<CheckpointRow> BestSavedCheckpoint(
    const std::vector<CheckpointRow>& rows, const ExperimentRow& experiment,
    std::int64_t trial);
/// "trial 3.7: its best validation (loss 0.2 at batch 40) has no checkpoint;
/// the best that has one is UUID (0.3 at batch 80)". `saved` is what
/// BestSavedCheckpoint gave, `counted` what batches count. REQUIRES: the trial
/// has a best validation.
std::string NoBestCheckpointText(const TrialRow& trial,
                                 const ExperimentRow& experiment,
                                 const std::optional<CheckpointRow>& saved,
                                 Unit counted);
/// The checkpoint of the best validation of a trial or, of an experiment, of
/// its best trial. Throws Error(kNotFound) if it has none, naming the best
/// checkpoint there is instead.
CheckpointRow FindBestCheckpoint(const Store& store, const Target& target);
/// The latest checkpoint of a trial or, of an experiment, of its only trial.
/// Throws Error(kNotFound), Error(kUsage) if it has several trials.
CheckpointRow FindLatestCheckpoint(const Store& store, const Target& target);
/// The trial that `target` names, or the only one of its experiment. Throws
/// Error(kNotFound), Error(kUsage) if it has several.
TrialRow FindOnlyTrial(const Store& store, const Target& target);

/// All experiments, their states as users see them.
std::vector<ExperimentRow> ListExperiments(const Store& store, bool archived);

/// The trials of `experiment`, their states as users see them.
std::vector<TrialRow> ListTrials(const Store& store,
                                 const ExperimentRow& experiment);
/// One of them. Throws Error(kNotFound) with what to do.
TrialRow FindTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number);

/// Experiments and trials of a store that are waiting for slots, read once from
/// the tickets of this machine's slot queue.
class SlotQueueView {
 public:
  explicit SlotQueueView(const Store& store);

  /// Returns the wait of a running experiment none of whose trials has a slot,
  /// else nullptr.
  const SlotWait* WaitOf(const ExperimentRow& row) const;
  const SlotWait* WaitOf(const TrialRow& row) const;

 private:
  std::vector<SlotWait> waits_;
};

/// Unit that the `batches` of the experiment's record count.
Unit CountedUnit(const Store& store, std::int64_t experiment);

/// "RUNNING", or "RUNNING (waiting)" where it waits for slots.
std::string StateText(State state, const SlotWait* wait);

/// "dtrain", with `--store` if that was given.
std::string ProgramFor(const GlobalOptions& globals);

/// How a user calls `arguments` on this store.
std::string CommandFor(const GlobalOptions& globals,
                       const std::string& arguments);

/// The ids in `words`, each once. Throws Error(kUsage) for what is none.
std::vector<std::int64_t> ParseExperimentIds(
    const std::vector<std::string>& words);

/// The store of this invocation, opened for writing. Throws Error(kNotFound)
/// unless each of `experiments` is in it: a store that is not there is not
/// made.
Store OpenStoreToChange(const GlobalOptions& globals,
                        const std::vector<std::int64_t>& experiments);

/// Throws Error(kStore) that names the experiment's runner if it has one;
/// `remedy` is what to do then.
void RequireNoRunner(const Store& store, std::int64_t experiment,
                     const std::string& remedy);

/// Holds the experiment's runner lock, so that nobody starts to run it
/// meanwhile; none where it has no directory of its own, in which there could
/// be a lock. Throws Error(kStore) that names its runner.
std::optional<RunnerLock> LockExperiment(const Store& store,
                                         std::int64_t experiment);

/// "process 12 on box".
std::string RunnerText(const RunnerIdentity& runner);

}  // namespace dtrain
