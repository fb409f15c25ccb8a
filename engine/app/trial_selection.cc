// The trials that --filter selects, over several experiments.
//
// A name may mean something else in each experiment (JointFields). The counts
// "3 of 12 trials match" are over the trials that the targets name.
//
// Whoever shows a best trial must call SetBest: the recorded best may not match
// the filter.

#include "engine/app/trial_selection.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/query/filter.h"
#include "engine/run/points.h"

namespace dtrain {
namespace {

constexpr char kOption[] = "--filter";

// The experiments of targets, and the trials of each that targets name; none:
// all.
struct Subjects {
  std::vector<ExperimentDetail> experiments;
  std::map<std::int64_t, std::set<std::int64_t>> named;
};

Subjects GroupTargets(const Store& store, const std::vector<Target>& targets) {
  Subjects subjects;
  std::set<std::int64_t> whole;
  for (const Target& target : targets) {
    (void)FindTarget(store, target);
    if (subjects.named.try_emplace(target.experiment).second) {
      subjects.experiments.push_back(
          FindExperimentDetail(store, target.experiment));
    }
    if (target.trial) {
      subjects.named[target.experiment].insert(*target.trial);
    } else {
      whole.insert(target.experiment);
    }
  }
  for (const std::int64_t id : whole) subjects.named[id].clear();
  return subjects;
}

}  // namespace

TrialSelection::TrialSelection(const Store& store,
                               const std::vector<Target>& targets,
                               const std::string& filter, Timestamp now)
    : filter_(filter) {
  if (!is_filtered()) return;
  const Subjects subjects = GroupTargets(store, targets);
  JointFields fields(store, subjects.experiments, now, /*utf8=*/false);
  const Filter condition = Filter::Parse(filter, fields.Context(kOption));
  notes_ = fields.notes();
  bool any = false;
  for (const ExperimentDetail& experiment : subjects.experiments) {
    const std::int64_t id = experiment.row.id;
    const std::set<std::int64_t>& named = subjects.named.at(id);
    Matching& matching = matching_[id];
    for (const TrialRow& row :
         ListTrials(store, experiment.row, fields.parts())) {
      if (!named.empty() && !named.contains(row.id.number)) continue;
      ++matching.trials;
      const bool matches = condition.Matches(
          [&](const FieldName& field) { return fields.GetValue(row, field); });
      if (matches) matching.numbers.push_back(row.id.number);
    }
    any = any || !matching.numbers.empty();
    if (subjects.experiments.size() > 1) {
      notes_.push_back("experiment " + std::to_string(id) + ": " + Text(id));
    }
  }
  RequireNamed(targets);
  notes_.push_back(Text() + " " + filter);
  if (any) return;
  throw Error(ErrorKind::kNotFound,
              std::string(kOption) + ": " + notes_.back());
}

void TrialSelection::RequireNamed(const std::vector<Target>& targets) const {
  for (const Target& target : targets) {
    if (!target.trial || Has({target.experiment, *target.trial})) continue;
    throw Error(ErrorKind::kNotFound,
                std::string(kOption) + ": trial " +
                    ToString(TrialId{target.experiment, *target.trial}) +
                    " does not match " + filter_);
  }
}

bool TrialSelection::Has(TrialId id) const {
  const auto* numbers = Numbers(id.experiment);
  return numbers == nullptr || std::ranges::binary_search(*numbers, id.number);
}

const std::vector<std::int64_t>* TrialSelection::Numbers(
    std::int64_t experiment) const {
  static const std::vector<std::int64_t> kNone;
  if (!is_filtered()) return nullptr;
  const auto found = matching_.find(experiment);
  return found == matching_.end() ? &kNone : &found->second.numbers;
}

void TrialSelection::Keep(std::vector<TrialRow>& trials) const {
  if (!is_filtered()) return;
  std::erase_if(trials, [&](const TrialRow& row) { return !Has(row.id); });
}

void TrialSelection::SetBest(const std::vector<TrialRow>& trials,
                             ExperimentDetail& experiment) const {
  if (!is_filtered()) return;
  ExperimentRow& row = experiment.row;
  row.best.reset();
  row.best_trial = 0;
  const Repeats repeats = ReadRepeats(experiment.config);
  if (repeats.count > 1) {
    const auto points = ListPoints(trials, experiment);
    const PointRow* best = FindBestPoint(points, repeats.count, /*over=*/true,
                                         row.smaller_is_better);
    if (best == nullptr) return;
    row.best = best->best;
    row.best->value = *best->value;
    row.best_trial = best->best_trial;
    return;
  }
  for (const TrialRow& trial : trials) {
    const bool is_better =
        trial.best && (!row.best || IsBetter(trial.best->value, row.best->value,
                                             row.smaller_is_better));
    if (!is_better) continue;
    row.best = trial.best;
    row.best_trial = trial.id.number;
  }
}

nlohmann::json TrialSelection::ToJson(
    std::optional<std::int64_t> experiment) const {
  if (!is_filtered()) return nullptr;
  std::size_t numbers = 0;
  std::size_t trials = 0;
  for (const auto& [id, matching] : matching_) {
    if (experiment && id != *experiment) continue;
    numbers += matching.numbers.size();
    trials += matching.trials;
  }
  return {{"expression", filter_}, {"matching", numbers}, {"trials", trials}};
}

std::string TrialSelection::Text(std::optional<std::int64_t> experiment) const {
  const nlohmann::json counts = ToJson(experiment);
  const auto matching = counts.at("matching").get<std::size_t>();
  const auto trials = counts.at("trials").get<std::size_t>();
  return std::to_string(matching) + " of " + CountText(trials, "trial") +
         (matching == 1 ? " matches" : " match");
}

}  // namespace dtrain
