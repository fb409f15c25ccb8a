// The keys of the section `searcher` in the table of the configuration's keys
// (see schema.h). A row has the type, default, bounds and documentation of one
// key, and the function that stores its value.
//
// Which search method has a key is not said here but in SearcherTable
// (searchers/registry.cc), next to the method. Rules between keys are in
// config_check.cc. Functions that store more than one member are above the
// table: a metric and its direction belong to the search and to the training.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/key_storing.h"
#include "engine/config/schema.h"

namespace dtrain {
namespace {

using enum KeyType;
using namespace key_storing;  // NOLINT: the functions of this table
using Json = nlohmann::json;
using Config = ExperimentConfig;

void StoreMetric(const Json& json, Config& config) {
  Convert(json, config.searcher.metric);
  Convert(json, config.training.searcher_metric);
}

void StoreDirection(const Json& json, Config& config) {
  Convert(json, config.searcher.smaller_is_better);
  Convert(json, config.training.smaller_is_better);
}

// Length 0 without max_length and max_time, which has the unit of time_metric.
void StoreMaxLength(const Json& json, Config& config) {
  if (json.is_null()) return;
  Length length;
  Convert(json, length);
  config.searcher.max_length = length.count;
  config.length_unit = length.unit;
}

// A program counts by a metric of another name as by epochs: in reports it has
// both the count and the batches.
void StoreTimeMetric(const Json& json, Config& config) {
  if (json.is_null()) return;
  Convert(json, config.training.time_metric);
  config.length_unit = Unit::kEpochs;
  for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
    if (json == UnitName(unit)) config.length_unit = unit;
  }
}

// REQUIRES: a length is in the unit of max_length.
void StoreBudget(const Json& json, Config& config) {
  if (json.is_null()) return;
  const auto budget = json.begin();  // unit and count
  if (budget.key() == "seconds") {
    config.searcher.budget_seconds = budget.value().get<double>();
  } else {
    config.searcher.budget = budget.value().get<std::int64_t>();
  }
}

void StoreWarmStart(const Json& json, Config& config) {
  for (const Json& source : json) {
    const bool is_label = source.is_string();
    config.warm_start.push_back(
        {.experiment = is_label ? 0 : source.get<std::int64_t>(),
         .label = is_label
                      ? source.get<std::string>().substr(kLabelPrefix.size())
                      : ""});
  }
}

// Keys of `searcher`. SearcherTable says which methods have which of the keys
// that not all have.
constexpr KeySpec kSearcherKeys[] = {
    {.path = "searcher",
     .type = kSection,
     .doc = "Which trials run, and for how long.",
     .required = true},
    {.path = "searcher.name",
     .type = kWord,
     .doc = "The search method.",
     .required = true,
     .substitutes = "adaptive=adaptive_asha adaptive_simple=adaptive_asha "
                    "sync_halving=async_halving hyperband=adaptive_asha "
                    "tpe=bayesian_asha bayes=bayesian_asha "
                    "bayesian=bayesian_asha bohb=bayesian_asha "
                    "optuna=bayesian_asha gp=bayesian_asha "
                    "hyperopt=bayesian_asha smac=bayesian_asha "
                    "median=async_halving pbt=adaptive_asha "
                    "random_search=random grid_search=grid",
     .store = IntoSearcher<&SearcherConfig::name>},
    {.path = "searcher.metric",
     .type = kText,
     .doc = "Validation metric that decides which trial is best.",
     .least = 1,
     .most = 1000,
     .required = true,
     .store = StoreMetric},
    {.path = "searcher.smaller_is_better",
     .type = kBool,
     .fallback = "true",
     .doc = "Whether smaller values of the metric are better.",
     .store = StoreDirection},
    {.path = "searcher.max_length",
     .type = kLength,
     .doc = "Maximum length of a trial. Required unless max_time is given; "
            "programs under single, random and grid may omit it.",
     .store = StoreMaxLength},
    {.path = "searcher.max_time",
     .type = kInt,
     .doc = "Replaces max_length, in the unit of time_metric.",
     .least = 1,
     .store = IntoSearcher<&SearcherConfig::max_length>},
    {.path = "searcher.time_metric",
     .type = kText,
     .doc = "Unit of max_time: batches, records or epochs; for a program also "
            "the name of a metric that gives its count.",
     .least = 1,
     .most = 1000,
     .store = StoreTimeMetric},
    {.path = "searcher.max_trials",
     .type = kInt,
     .doc = "Number of trials.",
     .least = 1,
     .most = 1'000'000,
     .required = true,
     .store = IntoSearcher<&SearcherConfig::max_trials>},
    {.path = "searcher.max_concurrent_trials",
     .type = kInt,
     .fallback = "16",
     .doc = "Maximum number of trials that run at the same time; 0: no limit. "
            "For bayesian_asha the default and 0 mean as many as the slots "
            "hold, on Slurm those of max_jobs jobs.",
     .most = 1'000'000,
     .store = IntoSearcher<&SearcherConfig::max_concurrent_trials>},
    {.path = "searcher.num_rungs",
     .type = kInt,
     .doc = "Number of rungs; by default as many as max_length and max_trials "
            "allow, at most 5. For bayesian_asha one more if the budget is 15 "
            "full trainings or more.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::num_rungs>},
    {.path = "searcher.divisor",
     .type = kNumber,
     .fallback = "4",
     .doc = "One in this many trials of a rung is trained to the next rung.",
     .least = 1,
     .most = 1'000'000,
     .above_least = true,
     .store = IntoSearcher<&SearcherConfig::divisor>},
    {.path = "searcher.stop_once",
     .type = kBool,
     .fallback = "false",
     .doc = "Stop trials instead of pausing and promoting them.",
     .store = IntoSearcher<&SearcherConfig::stop_once>},
    {.path = "searcher.mode",
     .type = kWord,
     .fallback = R"("standard")",
     .doc = "How early trials are stopped.",
     .words = "conservative standard aggressive",
     .store = IntoSearcher<&SearcherConfig::mode>},
    {.path = "searcher.max_rungs",
     .type = kInt,
     .fallback = "5",
     .doc = "Maximum number of rungs in a bracket.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::max_rungs>},
    {.path = "searcher.bracket_rungs",
     .type = kInts,
     .fallback = "[]",
     .doc = "Number of rungs of each bracket, instead of mode.",
     .least = 1,
     .most = 64,
     .store = IntoSearcher<&SearcherConfig::bracket_rungs>},
    {.path = "searcher.stops",
     .type = kInts,
     .fallback = "[]",
     .doc = "Lengths before max_length at which the trial is validated and "
            "saved, like a trial that is promoted there.",
     .least = 1,
     .store = IntoSearcher<&SearcherConfig::stops>},
    {.path = "searcher.points",
     .type = kPoints,
     .fallback = "[]",
     .doc = "Hyperparameters to try first: each point has a value for every "
            "searched hyperparameter.",
     .store = IntoSearcher<&SearcherConfig::points>},
    {.path = "searcher.budget",
     .type = kBudget,
     .doc = "Length that all trials together may train, or a duration such as "
            "8h, the sum of their training times; by default the total of the "
            "plan of async_halving with the same keys.",
     .store = StoreBudget},
    {.path = "searcher.cost",
     .type = kWord,
     .doc = "Cost of a trial in decisions: the seconds that it takes for its "
            "length, or its length only; by default length, or time if budget "
            "is a duration.",
     .words = "time length",
     .store = IntoSearcher<&SearcherConfig::cost>},
    {.path = "searcher.warm_start",
     .type = kExperiments,
     .fallback = "[]",
     .doc = "Experiments of this store whose best trials become points, behind "
            "those of points.",
     .store = StoreWarmStart},
    {.path = "searcher.source_trial_id",
     .type = kTrialId,
     .doc = "Start with the weights of the latest checkpoint of this trial, "
            "with counters at 0.",
     .store = Into<&Config::source_trial_id>},
    {.path = "searcher.source_checkpoint_uuid",
     .type = kUuid,
     .doc = "Start with the weights of this checkpoint, with counters at 0.",
     .store = Into<&Config::source_checkpoint_uuid>},
};

}  // namespace

std::span<const KeySpec> SearcherKeys() { return kSearcherKeys; }

}  // namespace dtrain
