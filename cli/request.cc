#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/store_change.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/context/stored_context.h"
#include "engine/context/working_tree.h"
#include "engine/store/rows.h"

// `pause`, `cancel` and `kill` write a row for each target into the store. The
// runner of the experiment reads it, acts, and records the new state, for which
// the command waits. An experiment without a runner has nobody to read the row:
// only `cancel` can act then, and does so itself, under the runner's lock.

namespace dtrain {
namespace {

struct RequestOptions : JsonOption {
  std::vector<std::string> targets;
  std::string timeout = "2m";
  bool no_wait = false;
};

// One target, and how far it has come.
struct Asked {
  Target target;
  State state = State::kPending;  // of the trial if one is named
  bool running = false;           // somebody holds the experiment
  std::int64_t request = 0;       // 0: none was made
  bool failed = false;

  std::string Name() const {
    const std::string id = std::to_string(target.experiment);
    return target.trial ? "trial " + id + "." + std::to_string(*target.trial)
                        : "experiment " + id;
  }
};

void Look(const Store& store, Asked& asked) {
  const std::int64_t id = asked.target.experiment;
  // The runner's last word is there before it goes.
  asked.running = RunnerLock::Holder(store.layout().RunnerLock(id)).has_value();
  const ExperimentRow row = FindTarget(store, asked.target);
  asked.state = row.state;
  if (!asked.target.trial) return;
  const auto trial = store.Trial({id, *asked.target.trial});
  if (trial) asked.state = trial->state;
  if (!asked.running && !IsFinal(asked.state)) asked.state = row.state;
}

bool IsSettled(const Asked& asked) {
  return !asked.running || (asked.target.trial && IsFinal(asked.state));
}

// The states of every unfinished trial and of the experiment, which nobody can
// start to run meanwhile.
void CancelHere(Store& store, std::int64_t id) {
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
  if (!store.Experiment(id)->provenance.contains(kContextHash)) return;
  for (const TrialRow& trial : store.Trials(id)) {
    TidyWorkingTree(store.layout().Context(id),
                    store.layout().WorkingTree(trial.id));
  }
}

void Refuse(Asked& asked, const std::string& remedy,
            const GlobalOptions& globals) {
  asked.failed = true;
  SayError(globals, asked.Name() + " is " +
                        std::string(StateName(asked.state)) + remedy);
}

// For one that nobody runs.
void ActHere(RequestKind kind, const RequestOptions& options, Asked& asked,
             const GlobalOptions& globals) {
  const std::string id = std::to_string(asked.target.experiment);
  const State wanted =
      kind == RequestKind::kPause ? State::kPaused : State::kCanceled;
  if (asked.state == wanted && kind != RequestKind::kKill) {
    Say(globals,
        asked.Name() + " is already " + std::string(StateName(wanted)));
  } else if (IsFinal(asked.state)) {
    Refuse(asked, "; nothing to " + std::string(RequestName(kind)), globals);
  } else if (kind == RequestKind::kCancel) {
    Store store = OpenStoreToChange(globals, {asked.target.experiment});
    CancelHere(store, asked.target.experiment);
    Look(store, asked);
    if (options.json) return;
    std::cout << asked.Name() << " is " << StateName(asked.state) << '\n';
  } else {
    Refuse(asked,
           " and has no runner; resume it with " +
               NamedCommand(CommandFor(globals, "resume " + id)) +
               ", or end it with " +
               NamedCommand(CommandFor(globals, "cancel " + id)),
           globals);
  }
}

// All that is asked, before anyone waits.
void Record(RequestKind kind, std::vector<Asked>& all,
            const GlobalOptions& globals) {
  if (std::ranges::none_of(all, &Asked::running)) return;
  Store store = OpenStoreToChange(globals, {});
  const Timestamp now = Clock::System().now();
  store.Write([&](StoreWriter& writer) {
    for (Asked& asked : all) {
      if (!asked.running) continue;
      asked.request = writer.AddRequest(asked.target.experiment,
                                        asked.target.trial, kind, now);
    }
  });
}

// False if the time was up first.
bool WaitFor(const Store& store, std::vector<Asked>& all, Duration timeout) {
  const Clock clock = Clock::System();
  const Duration start = clock.monotonic();
  const auto unsettled = [](const Asked& asked) {
    return asked.request != 0 && !IsSettled(asked);
  };
  while (true) {
    for (Asked& asked : all) {
      if (unsettled(asked)) Look(store, asked);
    }
    if (std::ranges::none_of(all, unsettled)) return true;
    if (clock.monotonic() - start >= timeout) return false;
    const timespec nap{.tv_sec = 0, .tv_nsec = 100'000'000};
    nanosleep(&nap, nullptr);
  }
}

nlohmann::json Json(const Asked& asked) {
  using nlohmann::json;
  const Target& target = asked.target;
  return {{"experiment", target.experiment},
          {"trial", target.trial ? json(std::to_string(target.experiment) +
                                        "." + std::to_string(*target.trial))
                                 : json(nullptr)},
          {"state", StateName(asked.state)},
          {"requested", asked.request != 0}};
}

// What became of one that was asked; the exit code.
int Tell(RequestKind kind, const Asked& asked, const RequestOptions& options,
         const GlobalOptions& globals) {
  if (asked.request == 0) return asked.failed ? kExitFailed : kExitDone;
  const std::string state(StateName(asked.state));
  if (!options.json) std::cout << asked.Name() << " is " << state << '\n';
  if (asked.state == State::kInterrupted) {
    const std::string id = std::to_string(asked.target.experiment);
    SayError(globals, asked.Name() + ": its runner died before it could " +
                          std::string(RequestName(kind)) + "; " +
                          NamedCommand(CommandFor(globals, "cancel " + id)) +
                          " ends it, " +
                          NamedCommand(CommandFor(globals, "resume " + id)) +
                          " resumes it");
    return kExitFailed;
  }
  return asked.state == State::kError ? kExitFailed : kExitDone;
}

std::vector<Asked> Parse(RequestKind kind, const RequestOptions& options,
                         const Store& store) {
  std::vector<Asked> all;
  for (const std::string& text : options.targets) {
    Asked asked;
    if (kind == RequestKind::kKill) {
      asked.target = ParseTarget(text);
    } else {
      asked.target.experiment = ParseExperimentId(text);
    }
    Look(store, asked);
    all.push_back(asked);
  }
  return all;
}

// Records the requests for all targets that have a runner in one transaction,
// so that a target that does not exist leaves the others alone.
int Request(RequestKind kind, const RequestOptions& options,
            const GlobalOptions& globals) {
  const Duration timeout = ParseDuration(options.timeout, "--timeout");
  const Store store = OpenStore(globals);
  std::vector<Asked> all = Parse(kind, options, store);
  Record(kind, all, globals);
  for (Asked& asked : all) {
    if (!asked.running) ActHere(kind, options, asked, globals);
  }
  const bool done = options.no_wait || WaitFor(store, all, timeout);
  int code = kExitDone;
  nlohmann::json array = nlohmann::json::array();
  for (const Asked& asked : all) {
    code = std::max(code, Tell(kind, asked, options, globals));
    array.push_back(Json(asked));
  }
  if (options.json) PrintJson({{"experiments", std::move(array)}});
  if (done) return code;
  SayError(globals, "not finished after " + FormatDuration(timeout) +
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
  AddOption(app, "EXP", options->targets, std::string(help.targets)).Required();
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
