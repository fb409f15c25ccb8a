// What searches recorded, compared with what a fresh searcher makes of it.

#include <memory>
#include <stdexcept>

#include "cli/doctor_checks.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/config/experiment_config.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// Plays the events of one search again, from the first.
class Replay {
 public:
  Replay(std::unique_ptr<Searcher> searcher,
         std::optional<Store::Snapshot> snapshot)
      : searcher_(std::move(searcher)), snapshot_(std::move(snapshot)) {}

  // What is wrong first, empty if nothing is.
  std::string Check(const std::vector<SearcherEventRow>& rows) {
    for (const SearcherEventRow& row : rows) {
      ++seq_;
      if (row.seq != seq_)
        return "event " + std::to_string(seq_) + " is missing";
      std::string problem;
      try {
        problem = CheckEvent(row);
      } catch (const std::invalid_argument& error) {
        problem = error.what();
      }
      if (problem.empty()) continue;
      return "at event " + std::to_string(seq_) + " " + problem;
    }
    if (snapshot_ && snapshot_->seq > seq_) {
      return "event " + std::to_string(seq_ + 1) + " is missing";
    }
    return "";
  }

 private:
  std::string CheckEvent(const SearcherEventRow& row) {
    const Event event = EventFromJson(row.event);
    if (!IsOfKnownTrial(event)) return "names a trial that was not created";
    for (const nlohmann::json& operation : row.operations) {
      const Operation recorded = OperationFromJson(operation);
      if (std::get_if<Create>(&recorded) != nullptr) ++created_;
    }
    if (ToJson(searcher_->Handle(event)) != row.operations) {
      return "replays to other operations than the recorded ones";
    }
    if (snapshot_ && snapshot_->seq == seq_ &&
        searcher_->Save() != snapshot_->state) {
      return "has the snapshot of another search";
    }
    return "";
  }

  // A searcher takes no events of others.
  bool IsOfKnownTrial(const Event& event) const {
    return std::visit(
        [this](const auto& of) {
          if constexpr (requires { of.trial; }) {
            return of.trial >= 0 && of.trial < created_;
          }
          return true;
        },
        event);
  }

  std::unique_ptr<Searcher> searcher_;
  std::optional<Store::Snapshot> snapshot_;
  std::int64_t seq_ = 0;
  TrialIndex created_ = 0;
};

std::string CheckSearch(const Store& store, const ExperimentRow& row) {
  // The snapshot first: meanwhile a runner may add to the events.
  auto snapshot = store.LatestSnapshot(row.id);
  const auto events = store.SearcherEvents(row.id, 0);
  if (events.empty() && !snapshot) return "";  // it never began
  const ExperimentDetail detail = FindExperimentDetail(store, row.id);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  Replay replay(MakeSearcher(config.searcher, config.hyperparameters, row.seed),
                std::move(snapshot));
  return replay.Check(events);
}

}  // namespace

DoctorFindings CheckSearches(const Store& store,
                             const std::vector<ExperimentRow>& rows) {
  DoctorFindings findings;
  for (const ExperimentRow& row : rows) {
    std::string problem;
    try {
      problem = CheckSearch(store, row);
    } catch (const Error& error) {
      problem =
          std::string("its configuration cannot be read: ") + error.what();
    }
    if (problem.empty()) continue;
    findings.push_back(
        {"search", Finding::Kind::kRemark,
         "experiment " + std::to_string(row.id) + ": " + problem +
             "; its search is damaged or was recorded by another version of "
             "dtrain, and cannot be resumed; create a new experiment"});
  }
  return findings;
}

}  // namespace dtrain
