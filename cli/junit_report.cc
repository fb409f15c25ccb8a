#include "cli/junit_report.h"

#include <algorithm>

#include "cli/store_access.h"
#include "engine/base/host_name.h"
#include "engine/report/format.h"
#include "engine/report/junit.h"

namespace dtrain {
namespace {

using Outcome = JunitCase::Outcome;

Outcome OutcomeOf(State state) {
  switch (state) {
    case State::kCompleted:
    case State::kStopped:
      return Outcome::kPassed;
    case State::kError:
      return Outcome::kFailed;
    case State::kPending:
    case State::kRunning:
    case State::kPaused:
    case State::kInterrupted:
    case State::kCanceled:
      return Outcome::kSkipped;
  }
  return Outcome::kSkipped;
}

JunitCase TrialCase(const TrialRow& trial, const ExperimentRow& experiment,
                    Unit counted) {
  JunitCase test{.name = "trial " + ToString(trial.id),
                 .class_name = experiment.name,
                 .seconds = trial.seconds,
                 .outcome = OutcomeOf(trial.state)};
  test.message = std::string(StateName(trial.state)) +
                 (trial.reason.empty() ? "" : ": " + trial.reason);
  test.output = FormatHparams(trial.hparams) + "\n" + experiment.metric + " " +
                FormatBest(trial.best, counted);
  return test;
}

JunitCase CheckCase(const Check& check, const ExperimentRow& experiment) {
  return {.name = "requirement " + check.text,
          .class_name = experiment.name,
          .outcome = check.met ? Outcome::kPassed : Outcome::kFailed,
          .message = "actual: " + check.actual};
}

}  // namespace

std::string JunitReport(const Store& store, const ExperimentRow& experiment,
                        const std::vector<Check>& checks) {
  JunitSuite suite{.name = experiment.name,
                   .host = HostName(),
                   .time = experiment.started.value_or(experiment.created),
                   .seconds = experiment.seconds};
  const Unit counted = CountedUnit(store, experiment.id);
  for (const TrialRow& trial : ListTrials(store, experiment)) {
    suite.cases.push_back(TrialCase(trial, experiment, counted));
  }
  const bool told = std::ranges::any_of(suite.cases, [](const JunitCase& c) {
    return c.outcome == Outcome::kFailed;
  });
  if (experiment.state == State::kError && !told) {
    suite.cases.push_back(
        {.name = "experiment " + std::to_string(experiment.id),
         .class_name = experiment.name,
         .outcome = Outcome::kFailed,
         .message = experiment.error});
  }
  for (const Check& check : checks) {
    suite.cases.push_back(CheckCase(check, experiment));
  }
  return JunitXml(suite);
}

}  // namespace dtrain
