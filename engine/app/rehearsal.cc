// `create --test`: an experiment shortened to a few batches, in a temporary
// store.
//
// The searcher is replaced by one that trains two trials alternately on one
// slot. The first trial trains, is validated and checkpointed, and makes room
// for the second; then it is restored from its checkpoint and trains further.
// So the code paths that a long run would reach only after hours run once in
// seconds.

#include "engine/app/rehearsal.h"

#include <algorithm>
#include <cmath>

#include "engine/app/run_experiment.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/run/reported_units.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// Batches of each trial, before and after it made room: enough for a schedule,
// an accumulation over two batches, and a report.
constexpr std::int64_t kBatches = 2;

ExperimentConfig Shortened(const ExperimentConfig& config) {
  ExperimentConfig test = config;
  // Before any training is lost, a wrong name is an error.
  test.training.requires_metric = true;
  if (test.searcher.max_length == 0) {
    // A program that decides its length is stopped at its first validation.
    test.searcher.name = "single";
  } else {
    test.searcher.name = kRehearsal;
    test.searcher.max_trials = 2;
    test.searcher.max_concurrent_trials = 1;
    test.searcher.max_length = 2 * kBatches;
    // A command reports in its own unit.
    if (!IsCommand(config)) test.length_unit = Unit::kBatches;
  }
  test.max_restarts = 0;
  test.resources.listen.reset();
  test.resources.local = true;
  // One trial at a time, with all its slots.
  if (!test.resources.all_slots) {
    test.resources.max_slots =
        std::max<std::int64_t>(1, std::llround(test.resources.slots_per_trial));
  }
  test.training.scheduling_unit = 1;
  test.training.validation_batches = kBatches;
  test.training.min_validation_period = {};
  test.training.min_checkpoint_period = {};
  test.training.early_stopping.reset();
  test.checkpoints.path.clear();
  test.source_checkpoint_uuid.clear();  // of another store
  return test;
}

}  // namespace

Rehearsal Rehearse(const ExperimentConfig& config, const std::string& library,
                   const std::filesystem::path& context) {
  const ScratchDirectory scratch;
  if (scratch.path().empty()) {
    throw Error(
        ErrorKind::kFailed,
        "cannot create a temporary directory; free some space or set TMPDIR");
  }
  const ExperimentConfig test = Shortened(config);
  Store store = Store::OpenForWriting(StoreLayout(scratch.path()));
  const std::int64_t id = CreateExperiment(
      store, test, "",
      {{"context", std::filesystem::absolute(context).string()}},
      Clock::System());
  Rehearsal rehearsal;
  rehearsal.result =
      RunExperiment(store, id, test, {.library = library}, rehearsal.findings);
  return rehearsal;
}

}  // namespace dtrain
