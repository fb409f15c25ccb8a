// The commands pause, cancel and kill. None acts on a running experiment
// itself: it records a request in the store, which the runner takes up, and
// waits until the store shows the effect. All requests are recorded before the
// first is waited for, so that several experiments stop at the same time. An
// experiment without a runner can only be canceled, which is done here
// (ActHere).

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/requests.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

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
