// The trials that --filter selects, over several experiments.
//
// The filter is parsed once for each experiment, because a name may mean
// something else in each: hyperparameters and metrics differ. A name that only
// other experiments know has no value in this one, and is an error only if none
// knows it. The counts "3 of 12 trials match" are over the trials that the
// targets name.
//
// Whoever shows a best trial must call SetBest: the recorded best may not match
// the filter.

#include "engine/app/trial_selection.h"

#include <algorithm>
#include <memory>
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

namespace dtrain {
namespace {

constexpr char kOption[] = "--filter";

// An experiment of which trials are selected.
struct Subject {
  ExperimentDetail detail;
  std::set<std::int64_t> named;  // trials that targets name; empty: all
  std::unique_ptr<TrialFields> fields;
};

std::vector<Subject> GroupTargets(const Store& store,
                                  const std::vector<Target>& targets,
                                  Timestamp now) {
  std::vector<Subject> subjects;
  std::set<std::int64_t> whole;
  for (const Target& target : targets) {
    (void)FindTarget(store, target);
    auto found = std::ranges::find(
        subjects, target.experiment,
        [](const Subject& subject) { return subject.detail.row.id; });
    if (found == subjects.end()) {
      subjects.push_back(
          {.detail = FindExperimentDetail(store, target.experiment)});
      found = subjects.end() - 1;
    }
    if (target.trial) {
      found->named.insert(*target.trial);
    } else {
      whole.insert(target.experiment);
    }
  }
  for (Subject& subject : subjects) {
    if (whole.contains(subject.detail.row.id)) subject.named.clear();
    subject.fields = std::make_unique<TrialFields>(store, subject.detail, now,
                                                   /*utf8=*/false);
  }
  return subjects;
}

// Returns the meaning of a field in `own`, else in another experiment, whose
// trials alone have values of it; then it is added to `unknown`.
ResolvedField Resolve(const FieldName& field, Subject& own,
                      std::vector<Subject>& subjects,
                      std::set<FieldName>& unknown) {
  std::optional<Error> first;
  const auto ask = [&](Subject& subject) -> std::optional<ResolvedField> {
    try {
      return subject.fields->Resolve(field);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      if (!first) first = error;
      return std::nullopt;
    }
  };
  if (const auto found = ask(own)) return *found;
  unknown.insert(field);
  for (Subject& subject : subjects) {
    if (const auto found = ask(subject)) return *found;
  }
  throw *std::move(first);
}

// Returns the trials of `own` that match, and counts in `trials` those that
// could.
std::vector<std::int64_t> MatchingTrials(const Store& store,
                                         const std::string& filter,
                                         Timestamp now, Subject& own,
                                         std::vector<Subject>& subjects,
                                         std::size_t& trials) {
  std::set<FieldName> unknown;
  const QueryContext context{.option = kOption,
                             .resolve =
                                 [&](const FieldName& field) {
                                   return Resolve(field, own, subjects,
                                                  unknown);
                                 },
                             .now = now};
  const Filter condition = Filter::Parse(filter, context);
  std::vector<std::int64_t> numbers;
  for (const TrialRow& row :
       ListTrials(store, own.detail.row, own.fields->parts())) {
    if (!own.named.empty() && !own.named.contains(row.id.number)) continue;
    ++trials;
    const bool matches = condition.Matches([&](const FieldName& field) {
      return unknown.contains(field) ? FieldValue()
                                     : own.fields->GetValue(row, field);
    });
    if (matches) numbers.push_back(row.id.number);
  }
  return numbers;
}

}  // namespace

TrialSelection::TrialSelection(const Store& store,
                               const std::vector<Target>& targets,
                               const std::string& filter, Timestamp now)
    : filter_(filter) {
  if (!is_filtered()) return;
  std::vector<Subject> subjects = GroupTargets(store, targets, now);
  bool any = false;
  for (Subject& own : subjects) {
    const std::int64_t id = own.detail.row.id;
    Matching& matching = matching_[id];
    matching.numbers =
        MatchingTrials(store, filter, now, own, subjects, matching.trials);
    any = any || !matching.numbers.empty();
    for (const std::string& note : own.fields->notes()) notes_.push_back(note);
    if (subjects.size() > 1) {
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
