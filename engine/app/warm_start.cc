// A search may begin with the best trials of earlier ones. Of each experiment
// these are the two best by its own metric, each trial with its value at the
// longest length that it was trained to. The experiments take turns, so that
// each adds its best trial before one adds its second. Trials that failed are
// not taken: their hyperparameters may be the reason.

#include "engine/app/warm_start.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/store/store.h"
#include "searchers/hparam_constraints.h"
#include "searchers/hparam_space.h"
#include "searchers/point_space.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::size_t kTrialsOfEach = 2;

// Returns nothing if there is no store yet.
std::optional<Store> OpenExisting(const StoreLayout& layout) {
  std::error_code error;
  if (!std::filesystem::exists(layout.Database(), error)) return std::nullopt;
  return Store::OpenForReading(layout);
}

// Returns which constraint of the search a point violates, or "". REQUIRES: it
// has all searched hyperparameters, so that none is drawn.
std::string FindViolated(const HparamConstraints& constraints,
                         const json& space, const json& point) {
  Rng rng(0);
  return constraints.FindViolated(HparamsOfPoint(space, point, rng));
}

// Finds the points of one experiment after the other.
class WarmStart {
 public:
  explicit WarmStart(const ExperimentConfig& config)
      : config_(config),
        constraints_(config.hyperparameters, config.searcher.constraints) {}

  struct Found {
    TrialId trial;
    json point;
  };

  // Reads the experiments that the configuration names.
  void Read(const GlobalOptions& globals);

  // Why no point was found, or an experiment does not exist.
  const std::optional<Diagnostic>& problem() const { return problem_; }
  // How many trials do not fit, or "".
  std::string LeftOutText() const;
  // Experiments without a trial that has a result.
  const std::vector<std::int64_t>& without_result() const {
    return without_result_;
  }
  // Returns the points to add, in order; each once.
  std::vector<Found> Points() const;

 private:
  std::vector<std::int64_t> Named(const WarmStartSource& source,
                                  const std::optional<Store>& store,
                                  const StoreLayout& layout);
  void Collect(const Store& store, std::int64_t experiment);
  void Refuse(const Diagnostic& where, const std::string& message);

  const ExperimentConfig& config_;
  HparamConstraints constraints_;
  std::optional<Diagnostic> problem_;
  std::vector<std::vector<Found>> by_experiment_;
  std::map<std::string, std::size_t> left_out_;  // trials, by the reason
  std::vector<std::int64_t> without_result_;
};

void WarmStart::Refuse(const Diagnostic& where, const std::string& message) {
  if (problem_) return;
  problem_ = where;
  problem_->message = message;
}

void WarmStart::Read(const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  const std::optional<Store> store = OpenExisting(layout);
  std::set<std::int64_t> read;
  for (const WarmStartSource& source : config_.warm_start) {
    for (const std::int64_t id : Named(source, store, layout)) {
      if (read.insert(id).second) Collect(*store, id);
    }
  }
  const bool found = std::ranges::any_of(
      by_experiment_, [](const auto& points) { return !points.empty(); });
  if (found) return;
  std::string why = LeftOutText();
  if (why.empty()) why = "no trial has a result";
  Refuse(config_.warm_start.front().where,
         why + ", so the search would begin without a point; remove " +
             "searcher.warm_start, or name other experiments");
}

// Returns the experiments of an entry, the newest ones of a label first.
std::vector<std::int64_t> WarmStart::Named(const WarmStartSource& source,
                                           const std::optional<Store>& store,
                                           const StoreLayout& layout) {
  const std::string place = " in the store " + layout.root().string();
  if (source.label.empty()) {
    if (store && store->Experiment(source.experiment)) {
      return {source.experiment};
    }
    Refuse(source.where, "experiment " + std::to_string(source.experiment) +
                             " does not exist" + place +
                             "; 'dtrain list' shows all");
    return {};
  }
  std::vector<std::int64_t> ids;
  std::vector<std::string> labels;
  if (store) {
    for (const ExperimentRow& row : store->Experiments({})) {
      labels.insert(labels.end(), row.labels.begin(), row.labels.end());
      if (std::ranges::find(row.labels, source.label) != row.labels.end()) {
        ids.push_back(row.id);
      }
    }
  }
  std::ranges::sort(ids, std::greater());
  if (ids.empty()) {
    Refuse(source.where, "no experiment" + place + " has the label '" +
                             source.label + "' (archived ones do not count)" +
                             DidYouMean(source.label, labels));
  }
  return ids;
}

void WarmStart::Collect(const Store& store, std::int64_t experiment) {
  std::vector<TrialRow> trials =
      store.Trials(experiment, {.checkpoints = false});
  std::erase_if(trials, [](const TrialRow& trial) {
    return trial.state == State::kError || trial.state == State::kInvalid ||
           !trial.latest || !std::isfinite(trial.latest->value);
  });
  if (trials.empty()) without_result_.push_back(experiment);
  std::map<std::int64_t, double> values;
  for (const TrialRow& trial : trials) {
    values[trial.id.number] = trial.latest->value;
  }
  SortByPoint(*store.Experiment(experiment), values, trials);
  std::vector<Found>& found = by_experiment_.emplace_back();
  for (const TrialRow& trial : trials) {
    if (found.size() == kTrialsOfEach) break;
    std::string why;
    auto point = PointOfHparams(config_.hyperparameters, trial.hparams, why);
    const std::string violated =
        point ? FindViolated(constraints_, config_.hyperparameters, *point)
              : "";
    if (!violated.empty()) why = "'" + violated + "' is violated";
    if (!why.empty()) {
      ++left_out_[why];
    } else if (std::ranges::find(found, *point, &Found::point) == found.end()) {
      found.push_back({trial.id, *std::move(point)});
    }
  }
}

std::string WarmStart::LeftOutText() const {
  std::size_t trials = 0;
  std::vector<std::string> reasons;
  for (const auto& [why, count] : left_out_) {
    trials += count;
    reasons.push_back(why + " in " + std::to_string(count));
  }
  if (trials == 0) return "";
  return CountText(trials, "trial does", "trials do") +
         " not fit the hyperparameters: " + Join(reasons, ", ");
}

std::vector<WarmStart::Found> WarmStart::Points() const {
  const json& space = config_.hyperparameters;
  const std::vector<json>& own = config_.searcher.points;
  const std::size_t most = std::min(
      TrialsBeforeModel(PointSpace(space).dimensions()),
      static_cast<std::size_t>(config_.searcher.max_trials) - own.size());
  // Points of the user may have constants too.
  std::vector<json> tried;
  for (const json& point : own) {
    std::string ignored;
    tried.push_back(PointOfHparams(space, point, ignored).value_or(json()));
  }
  std::vector<Found> points;
  for (std::size_t turn = 0; turn < kTrialsOfEach; ++turn) {
    for (const std::vector<Found>& found : by_experiment_) {
      if (turn >= found.size() || points.size() == most) continue;
      if (std::ranges::find(tried, found[turn].point) != tried.end()) continue;
      tried.push_back(found[turn].point);
      points.push_back(found[turn]);
    }
  }
  return points;
}

// Says which points were found, and which were not.
void ReportPoints(const WarmStart& start,
                  const std::vector<WarmStart::Found>& points,
                  const GlobalOptions& globals) {
  const std::string key = "searcher.warm_start: ";
  for (const std::int64_t id : start.without_result()) {
    PrintNotice(globals, key + "experiment " + std::to_string(id) +
                             " has no trial with a result");
  }
  const std::string left_out = start.LeftOutText();
  if (!left_out.empty()) PrintNotice(globals, key + left_out);
  std::vector<std::string> trials;
  for (const auto& found : points) trials.push_back(ToString(found.trial));
  PrintNotice(globals,
              key + "adds " + CountText(points.size(), "point") +
                  (trials.empty() ? ": searcher.points has them already, or "
                                    "as many as max_trials"
                                  : " from " + Join(trials, ", ")));
}

}  // namespace

std::optional<Diagnostic> FindWarmStartProblem(const ExperimentConfig& config,
                                               const GlobalOptions& globals) {
  if (config.warm_start.empty()) return std::nullopt;
  WarmStart start(config);
  start.Read(globals);
  return start.problem();
}

std::optional<std::string> SuggestWarmStart(const ExperimentConfig& config,
                                            const GlobalOptions& globals) {
  constexpr std::size_t kMaxNamed = 4;
  constexpr int kMaxRead = 100;
  const SearcherConfig& searcher = config.searcher;
  const auto keys = Split(std::string(FindSearcher(searcher.name)->keys), ' ');
  const bool takes_points = std::ranges::find(keys, kWarmStart) != keys.end();
  if (!takes_points || !config.warm_start.empty() ||
      IsConstant(config.hyperparameters)) {
    return std::nullopt;
  }
  const std::optional<Store> store = OpenExisting(FindStore(globals));
  if (!store) return std::nullopt;
  const HparamConstraints constraints(config.hyperparameters,
                                      searcher.constraints);
  std::vector<std::string> ids;
  int left = kMaxRead;
  const std::vector<ExperimentRow> rows = store->Experiments({});
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const bool compares = IsFinal(row->state) && row->best &&
                          row->searcher != "single" &&
                          row->metric == searcher.metric &&
                          row->smaller_is_better == searcher.smaller_is_better;
    if (!compares) continue;
    if (ids.size() == kMaxNamed || left-- == 0) break;
    const auto trial = store->Trial({row->id, row->best_trial});
    if (!trial) continue;
    std::string problem;
    const auto point =
        PointOfHparams(config.hyperparameters, trial->hparams, problem);
    if (point &&
        FindViolated(constraints, config.hyperparameters, *point).empty()) {
      ids.push_back(std::to_string(row->id));
    }
  }
  if (ids.empty()) return std::nullopt;
  std::ranges::reverse(ids);
  return CountText(ids.size(), "earlier search fits", "earlier searches fit") +
         ": searcher.warm_start=[" + Join(ids, ", ") + "] tries " +
         (ids.size() == 1 ? "its" : "their") + " best first";
}

json ResolveWarmStart(ExperimentConfig& config, const GlobalOptions& globals) {
  if (config.warm_start.empty()) return nullptr;
  WarmStart start(config);
  start.Read(globals);
  if (const auto& problem = start.problem()) {
    throw Error(ErrorKind::kUsage, problem->ToString());
  }
  const std::vector<WarmStart::Found> points = start.Points();
  ReportPoints(start, points, globals);
  json trials = json::array();
  for (const auto& [trial, point] : points) {
    trials.push_back(ToString(trial));
    config.searcher.points.push_back(point);
  }
  config.warm_start.clear();
  config.effective["searcher"]["points"] = config.searcher.points;
  config.effective["searcher"][kWarmStart] = json::array();
  return trials;
}

}  // namespace dtrain
