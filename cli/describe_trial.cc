#include "cli/describe_trial.h"

#include <iostream>

#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/profile_view.h"

namespace dtrain {
namespace {

void PrintProfile(const ProfileReport& profile, const GlobalOptions& globals) {
  std::cout << "\nwhere the time went, " << profile.trained << " batches\n";
  PrintTable(ProfileTable(profile), Format::kText, globals);
  std::cout << '\n';
  for (const auto& [name, value] : ProfileFacts(profile)) {
    PrintFact(name, value);
  }
}

void PrintTrial(const TrialRow& row, const std::string& metric,
                const std::string& directory, const SlotWait* wait,
                Unit counted) {
  const std::string named = metric + " ";
  std::cout << "trial " << ToString(row.id) << '\n';
  PrintFact("state", StateText(row.state, wait) +
                         (row.reason.empty() ? "" : ": " + row.reason));
  if (wait != nullptr) PrintFact("slots", wait->ToString());
  PrintFact("hparams", FormatHparams(row.hparams));
  PrintFact("seed", std::to_string(row.seed));
  PrintFact(std::string(UnitName(counted)), std::to_string(row.batches));
  PrintFact("rung", std::to_string(row.rung));
  const bool is_lost = row.best && row.best->checkpoint.empty();
  PrintFact("best", row.best ? named + FormatBest(row.best, counted) +
                                   (is_lost ? ", no checkpoint" : "")
                             : "-");
  PrintFact("latest",
            row.latest ? named + FormatBest(row.latest, counted) : "-");
  PrintFact("checkpoint", row.latest_checkpoint);
  PrintFact("restarts", std::to_string(row.restarts));
  PrintFact("created", FormatTime(row.created));
  PrintFact("started", FormatTime(row.started));
  PrintFact("ended", FormatTime(row.ended));
  PrintFact("duration",
            FormatSeconds(ElapsedSeconds(row, Clock::System().now())));
  PrintFact("directory", directory);
}

}  // namespace

nlohmann::json EvaluationsJson(const std::vector<EvaluationRow>& rows) {
  nlohmann::json array = nlohmann::json::array();
  for (const EvaluationRow& row : rows) array.push_back(EvaluationJson(row));
  return array;
}

void PrintEvaluations(const std::vector<EvaluationRow>& rows) {
  if (rows.empty()) return;
  std::cout << "\nrecorded evaluations\n";
  for (const EvaluationRow& row : rows) {
    const std::string data = row.data.empty() ? "" : ", data " + row.data;
    PrintFact(FormatTime(row.time), row.split + " set, trial " +
                                        ToString(row.trial) + ", checkpoint " +
                                        row.checkpoint + " at batch " +
                                        std::to_string(row.batches) + data +
                                        ": " + FormatMetrics(row.metrics));
  }
}

void DescribeTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number, bool as_json,
                   const GlobalOptions& globals) {
  const TrialRow row = FindTrial(store, experiment, number);
  const std::string directory = store.layout().Trial(row.id).string();
  const auto profile = store.Profile(row.id);
  const auto evaluations = store.Evaluations(experiment.id, number);
  const SlotQueueView queue(store);
  const SlotWait* wait = queue.WaitOf(row);
  if (as_json) {
    const double seconds = ElapsedSeconds(row, Clock::System().now());
    nlohmann::json document = TrialJson(row, experiment.metric, seconds, wait);
    document["directory"] = directory;
    document["profile"] = ProfileJson(profile);
    document["evaluations"] = EvaluationsJson(evaluations);
    PrintJson(document);
    return;
  }
  PrintTrial(row, experiment.metric, directory, wait,
             CountedUnit(store, experiment.id));
  if (profile) PrintProfile(*profile, globals);
  PrintEvaluations(evaluations);
}

}  // namespace dtrain
