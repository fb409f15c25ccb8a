// `pause`, `cancel` and `kill` write a row for each target into the store. The
// runner of the experiment reads it, acts, and records the new state, for which
// the command waits. Without a runner only `cancel` can act, and does so
// itself, under the runner's lock.

#include "engine/app/requests.h"

#include <algorithm>
#include <ctime>

#include "engine/app/slurm_workers.h"
#include "engine/context/stored_context.h"
#include "engine/context/working_tree.h"
#include "engine/run/runner_lock.h"

namespace dtrain {
namespace {

bool IsSettled(const PendingRequest& pending) {
  return !pending.running || (pending.target.trial && IsFinal(pending.state));
}

}  // namespace

void UpdateRequest(const Store& store, PendingRequest& pending) {
  const std::int64_t id = pending.target.experiment;
  // A runner records its final state before it releases its lock, so the lock
  // is read first.
  pending.running =
      RunnerLock::Holder(store.layout().RunnerLock(id)).has_value();
  const ExperimentRow row = FindTarget(store, pending.target);
  pending.state = row.state;
  if (!pending.target.trial) return;
  const auto trial = store.Trial({id, *pending.target.trial});
  if (trial) pending.state = trial->state;
  if (!pending.running && !IsFinal(pending.state)) pending.state = row.state;
}

void CancelWithoutRunner(Store& store, std::int64_t id) {
  const auto lock = LockExperiment(store, id);
  if (IsFinal(FindExperiment(store, id).state)) return;  // it ended just now
  const Timestamp now = Clock::System().now();
  store.Write([&](StoreWriter& writer) {
    for (const TrialRow& trial : store.Trials(id)) {
      if (IsFinal(trial.state)) continue;
      writer.SetTrialState(trial.id, State::kCanceled, now, "canceled");
    }
    writer.SetExperimentState(id, State::kCanceled, now);
    for (const RequestRow& request : store.OpenRequests(id)) {
      writer.FinishRequest(request.id);
    }
  });
  // Workers of a runner that was killed end by themselves, pending jobs do not.
  if (HadJobs(store, id)) CancelLeftJobs(store, id);
  if (!store.Experiment(id)->provenance.contains(kContextHash)) return;
  for (const TrialRow& trial : store.Trials(id)) {
    TidyWorkingTree(store.layout().Context(id),
                    store.layout().WorkingTree(trial.id));
  }
}

void RecordRequests(RequestKind kind, std::vector<PendingRequest>& all,
                    const GlobalOptions& globals) {
  if (std::ranges::none_of(all, &PendingRequest::running)) return;
  Store store = OpenStoreToChange(globals, {});
  const Timestamp now = Clock::System().now();
  store.Write([&](StoreWriter& writer) {
    for (PendingRequest& pending : all) {
      if (!pending.running) continue;
      pending.request = writer.AddRequest(pending.target.experiment,
                                          pending.target.trial, kind, now);
    }
  });
}

bool WaitForRequests(const Store& store, std::vector<PendingRequest>& all,
                     Duration timeout) {
  const Clock clock = Clock::System();
  const Duration start = clock.monotonic();
  const auto unsettled = [](const PendingRequest& pending) {
    return pending.request != 0 && !IsSettled(pending);
  };
  while (true) {
    for (PendingRequest& pending : all) {
      if (unsettled(pending)) UpdateRequest(store, pending);
    }
    if (std::ranges::none_of(all, unsettled)) return true;
    if (clock.monotonic() - start >= timeout) return false;
    const timespec nap{.tv_sec = 0, .tv_nsec = 100'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace dtrain
