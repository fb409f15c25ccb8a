// The commands pause, cancel and kill. None acts on a running experiment
// itself: it records a request in the store, which the runner takes up, and
// waits until the store shows the effect. All requests are recorded before the
// first is waited for, so that several experiments stop at the same time. An
// experiment without a runner can only be canceled, which is done here
// (ActHere) under the runner's lock.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/notifications.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/stored_context.h"
#include "engine/context/working_tree.h"
#include "engine/run/notifications.h"
#include "engine/run/points.h"
#include "engine/run/runner_lock.h"
#include "engine/store/rows.h"

namespace dtrain {
namespace {

// A request for an experiment or trial, and what has become of it.
struct PendingRequest {
  Target target;
  State state = State::kPending;  // of the trial if one is named
  bool running = false;           // the experiment has a runner
  std::int64_t request = 0;       // 0: none was made
  bool failed = false;

  std::string Name() const {
    const std::string id = std::to_string(target.experiment);
    return target.trial ? "trial " + id + "." + std::to_string(*target.trial)
                        : "experiment " + id;
  }
};

// Reads the state of the target and whether its experiment has a runner.
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

// Cancels an experiment that has no runner: records the states of every
// unfinished trial and of the experiment under the runner's lock.
void CancelWithoutRunner(Store& store, std::int64_t id) {
  const auto lock = LockExperiment(store, id);
  if (IsFinal(FindExperiment(store, id).state)) return;  // it ended just now
  const Timestamp now = Clock::System().now();
  const nlohmann::json recorded = FindExperimentDetail(store, id).config;
  const bool tells =
      recorded.contains("notify") && recorded["notify"].is_object();
  store.Write([&](StoreWriter& writer) {
    for (const TrialRow& trial : store.Trials(id)) {
      if (IsFinal(trial.state)) continue;
      writer.SetTrialState(trial.id, State::kCanceled, now, "canceled");
    }
    if (ReadRepeats(recorded).count > 1) {
      SetBestPoint(store, writer, id, /*over=*/true);
    }
    writer.SetExperimentState(id, State::kCanceled, now);
    for (const RequestRow& request : store.OpenRequests(id)) {
      writer.FinishRequest(request.id);
    }
    if (!tells) return;
    AddNotifications(writer, ConfigFromJson(recorded), id,
                     EndEvent(State::kCanceled), now,
                     {{"state", StateName(State::kCanceled)},
                      {"best", RecordedBestFact(store, id)}});
  });
  if (tells) {
    const Notifier sends(store.layout(), id);
  }
  // Workers of a runner that was killed end by themselves, pending jobs do not.
  if (HadJobs(store, id)) CancelLeftJobs(store, id);
  if (!store.Experiment(id)->provenance.contains(kContextHash)) return;
  for (const TrialRow& trial : store.Trials(id)) {
    TidyWorkingTree(store.layout().Context(id),
                    store.layout().WorkingTree(trial.id));
  }
}

// Records the requests for all targets that have a runner in one transaction,
// so that a target that does not exist leaves the others alone.
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

bool IsSettled(const PendingRequest& pending) {
  return !pending.running || (pending.target.trial && IsFinal(pending.state));
}

// Waits until all recorded requests are done. Returns false on timeout.
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

struct RequestOptions : JsonOption {
  std::vector<std::string> targets;
  std::string timeout = "2m";
  bool no_wait = false;
};

void Refuse(PendingRequest& pending, const std::string& remedy,
            const GlobalOptions& globals) {
  pending.failed = true;
  PrintError(globals, pending.Name() + " is " +
                          std::string(StateName(pending.state)) + remedy);
}

// Handles a target without a runner.
void ActHere(RequestKind kind, const RequestOptions& options,
             PendingRequest& pending, const GlobalOptions& globals) {
  const std::string id = std::to_string(pending.target.experiment);
  const State target_state =
      kind == RequestKind::kPause ? State::kPaused : State::kCanceled;
  if (pending.state == target_state && kind != RequestKind::kKill) {
    PrintNotice(globals, pending.Name() + " is already " +
                             std::string(StateName(target_state)));
  } else if (IsFinal(pending.state)) {
    Refuse(pending, "; nothing to " + std::string(RequestName(kind)), globals);
  } else if (kind == RequestKind::kCancel) {
    Store store = OpenStoreToChange(globals, {pending.target.experiment});
    CancelWithoutRunner(store, pending.target.experiment);
    UpdateRequest(store, pending);
    if (options.json) return;
    std::cout << pending.Name() << " is " << StateName(pending.state) << '\n';
  } else {
    Refuse(pending,
           " and has no runner; resume it with " +
               NamedCommand(CommandFor(globals, "resume " + id)) +
               ", or end it with " +
               NamedCommand(CommandFor(globals, "cancel " + id)),
           globals);
  }
}

nlohmann::json Json(const PendingRequest& pending) {
  using nlohmann::json;
  const Target& target = pending.target;
  return {{"experiment", target.experiment},
          {"trial", target.trial ? json(std::to_string(target.experiment) +
                                        "." + std::to_string(*target.trial))
                                 : json(nullptr)},
          {"state", StateName(pending.state)},
          {"requested", pending.request != 0}};
}

// Prints the outcome of a request and returns the exit code.
int PrintOutcome(RequestKind kind, const PendingRequest& pending,
                 const RequestOptions& options, const GlobalOptions& globals) {
  if (pending.request == 0) return pending.failed ? kExitFailed : kExitDone;
  const std::string state(StateName(pending.state));
  if (!options.json) std::cout << pending.Name() << " is " << state << '\n';
  if (pending.state == State::kInterrupted) {
    const std::string id = std::to_string(pending.target.experiment);
    PrintError(globals, pending.Name() + ": its runner died before it could " +
                            std::string(RequestName(kind)) + "; " +
                            NamedCommand(CommandFor(globals, "cancel " + id)) +
                            " ends it, " +
                            NamedCommand(CommandFor(globals, "resume " + id)) +
                            " resumes it");
    return kExitFailed;
  }
  return pending.state == State::kError ? kExitFailed : kExitDone;
}

std::vector<PendingRequest> Parse(RequestKind kind,
                                  const RequestOptions& options,
                                  const Store& store) {
  std::vector<PendingRequest> all;
  std::vector<Target> targets;
  if (kind == RequestKind::kKill) {
    targets = ResolveTargets(store, options.targets);
  } else {
    for (const auto id : ResolveExperiments(store, options.targets)) {
      targets.push_back({.experiment = id});
    }
  }
  for (const Target& target : targets) {
    PendingRequest pending{.target = target};
    UpdateRequest(store, pending);
    all.push_back(pending);
  }
  return all;
}

int Request(RequestKind kind, const RequestOptions& options,
            const GlobalOptions& globals) {
  const Duration timeout = ParseDuration(options.timeout, "--timeout");
  const Store store = OpenStore(globals);
  std::vector<PendingRequest> all = Parse(kind, options, store);
  RecordRequests(kind, all, globals);
  for (PendingRequest& pending : all) {
    if (!pending.running) ActHere(kind, options, pending, globals);
  }
  const bool done = options.no_wait || WaitForRequests(store, all, timeout);
  int code = kExitDone;
  nlohmann::json array = nlohmann::json::array();
  for (const PendingRequest& pending : all) {
    code = std::max(code, PrintOutcome(kind, pending, options, globals));
    array.push_back(Json(pending));
  }
  if (options.json) PrintJson({{"experiments", std::move(array)}});
  if (done) return code;
  PrintError(globals, "not finished after " + FormatDuration(timeout) +
                          "; the request remains; check with " +
                          NamedCommand(CommandFor(globals, "list")) +
                          ", or wait longer with --timeout");
  return kExitTimeout;
}

struct RequestHelp {
  std::string_view targets;  // description of EXP
  std::string_view notes;
  std::vector<HelpExample> examples;
};

CommandRun SetUpRequest(CLI::App& app, RequestKind kind, RequestHelp help) {
  auto options = std::make_shared<RequestOptions>();
  AddOption(app, "EXP", options->targets, std::string(help.targets))
      .Completes(kind == RequestKind::kKill ? ValueKind::kTarget
                                            : ValueKind::kExperiment)
      .Required();
  AddOption(app, "--timeout", options->timeout,
            "Wait at most TIME, then exit with 124: 90 (seconds), 30m")
      .TypeName("TIME")
      .ShowDefault();
  AddFlag(app, "--no-wait", options->no_wait,
          "Send the request and return at once");
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes = help.notes,
           .exits = {{kExitDone},
                     {kExitFailed,
                      "an experiment is not running, has already "
                      "ended, or failed"},
                     {kExitUsage},
                     {kExitNotFound},
                     {kExitStore},
                     {kExitTimeout, "--timeout expired; the request remains"}},
           .examples = std::move(help.examples)});
  return [kind, options](const GlobalOptions& globals) {
    return Request(kind, *options, globals);
  };
}

}  // namespace

CommandRun SetUpPause(CLI::App& app) {
  return SetUpRequest(
      app, RequestKind::kPause,
      {.targets = "Experiment IDs (3)",
       .notes = "Trials save a checkpoint and stop; 'dtrain resume' resumes "
                "the experiment.",
       .examples = {{"Pause an experiment and wait for it", "dtrain pause 3"},
                    {"Pause two experiments without waiting",
                     "dtrain pause 3 4 --no-wait"}}});
}

CommandRun SetUpCancel(CLI::App& app) {
  return SetUpRequest(
      app, RequestKind::kCancel,
      {.targets = "Experiment IDs (3)",
       .notes = "Trials save a checkpoint and stop. A canceled experiment "
                "cannot be resumed.",
       .examples = {{"Cancel an experiment", "dtrain cancel 3"},
                    {"Cancel a large experiment with a longer timeout",
                     "dtrain cancel 3 --timeout 10m"}}});
}

CommandRun SetUpKill(CLI::App& app) {
  return SetUpRequest(
      app, RequestKind::kKill,
      {.targets = "Experiment IDs (3) or trials (3.7)",
       .notes =
           "Processes end immediately, without a checkpoint. An experiment "
           "continues without a killed trial.",
       .examples = {{"Kill one trial of a search", "dtrain kill 3.7"},
                    {"Kill a whole experiment", "dtrain kill 3"}}});
}

}  // namespace dtrain
