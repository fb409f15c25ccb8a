// `dtrain extend` and `dtrain set max-trials`. The configuration contains the
// current plan, which previews and displays read. The provenance keeps the
// original section `searcher`, because a replay creates the searcher from it.

#include "engine/app/extension.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/run/runner.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using nlohmann::json;

void RequireExtendable(const ExperimentDetail& detail) {
  RequireNotImported(detail);
  const std::string id = std::to_string(detail.row.id);
  const SearcherEntry* entry = FindSearcher(detail.row.searcher);
  const auto keys =
      Split(entry == nullptr ? std::string_view() : entry->keys, ' ');
  if (std::ranges::find(keys, "max_trials") == keys.end()) {
    throw Error(ErrorKind::kUsage,
                "experiment " + id + ": a search by '" + detail.row.searcher +
                    "' has no number of trials to extend; 'dtrain continue " +
                    id + "' trains its best trial on, 'dtrain rerun " + id +
                    ".1' trains one again");
  }
  if (detail.row.state == State::kError) {
    throw Error(ErrorKind::kFailed,
                "experiment " + id + " is in ERROR; 'dtrain resume " + id +
                    " --failed' runs its failed trials again, 'dtrain create "
                    "--from " +
                    id + "' all of them");
  }
  if (detail.row.state == State::kCanceled) {
    throw Error(ErrorKind::kFailed,
                "experiment " + id +
                    " is CANCELED, which is final; create a "
                    "new experiment from it: 'dtrain config " +
                    id + "'");
  }
}

// Returns `now`, or `now` + `text` if that begins with '+'. Throws
// Error(kUsage) unless the result is larger than `now`.
std::int64_t ParseTotal(const std::string& option, std::int64_t now,
                        std::string_view text) {
  const bool adds = text.starts_with('+');
  std::int64_t value = 0;
  const char* const begin = text.data() + (adds ? 1 : 0);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || value < 1) {
    throw Error(ErrorKind::kUsage,
                option + ": '" + std::string(text) +
                    "' is not a number above 0; write a total such as " +
                    std::to_string(MultiplyAdd(now, 2, 0)) +
                    ", or +N for N more");
  }
  if (adds) value = MultiplyAdd(value, 1, now);
  if (value > now) return value;
  throw Error(ErrorKind::kUsage,
              option + ": the search has " + std::to_string(now) +
                  " already; give a larger total, or +N for N more");
}

// Returns the JSON of searcher.budget that `text` asks for.
json ParseBudget(const SearcherConfig& plan, Unit unit, std::string_view text) {
  constexpr const char* kOption = "--budget";
  if (plan.budget_seconds == 0) {
    return {{UnitName(unit), ParseTotal(kOption, SearchBudget(plan), text)}};
  }
  const bool adds = text.starts_with('+');
  const double value = std::chrono::duration<double>(
                           ParseDuration(text.substr(adds ? 1 : 0), kOption))
                           .count() +
                       (adds ? plan.budget_seconds : 0);
  if (value > plan.budget_seconds) return {{"seconds", value}};
  throw Error(ErrorKind::kUsage,
              std::string(kOption) + ": the search has " +
                  FormatDuration(std::chrono::duration_cast<Duration>(
                      std::chrono::duration<double>(plan.budget_seconds))) +
                  " already; give a longer duration, or +2h for 2 hours more");
}

}  // namespace

json ExtendConfig(const ExperimentDetail& detail, const PlanChange& change) {
  RequireExtendable(detail);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  const SearcherConfig created = CreatedSearcher(detail, config.searcher);
  if (change.max_trials.empty() && change.budget.empty()) {
    throw Error(ErrorKind::kUsage,
                std::string("give the new number of trials: --max-trials N "
                            "or +N") +
                    (IsModelBased(created) ? ", or --budget B or +B" : ""));
  }
  json extended = detail.config;
  json& searcher = extended.at("searcher");
  std::int64_t trials = config.searcher.max_trials;
  if (!change.max_trials.empty()) {
    trials = ParseTotal("--max-trials", trials, change.max_trials);
  }
  const SearcherConfig plan = ExtendPlan(created, trials);
  searcher["max_trials"] = trials;
  if (plan.num_rungs > 0) searcher["num_rungs"] = plan.num_rungs;
  if (!plan.bracket_rungs.empty()) {
    searcher["bracket_rungs"] = plan.bracket_rungs;
  }
  if (IsModelBased(created)) {
    // A budget that a user has given, now or at an earlier extension, stays.
    const bool has_budget =
        created.budget > 0 || created.budget_seconds > 0 ||
        (detail.provenance.contains(kExtended) &&
         config.searcher.budget !=
             ExtendPlan(created, config.searcher.max_trials).budget);
    const bool is_spent = detail.row.state == State::kCompleted &&
                          detail.row.trials < config.searcher.max_trials;
    if (!change.budget.empty()) {
      searcher["budget"] =
          ParseBudget(config.searcher, config.length_unit, change.budget);
    } else if (has_budget && is_spent) {
      throw Error(ErrorKind::kUsage,
                  "experiment " + std::to_string(detail.row.id) +
                      " has spent its searcher.budget; give --budget, too");
    } else if (!has_budget) {
      searcher["budget"] = {{UnitName(config.length_unit), plan.budget}};
    }
  } else if (!change.budget.empty()) {
    throw Error(ErrorKind::kUsage,
                "--budget: only bayesian_asha has a budget; a search by '" +
                    detail.row.searcher + "' takes --max-trials");
  }
  const ConfigResult read =
      ReadConfig(ToYaml(extended), {.file_name = "the extended configuration",
                                    .recorded = true,
                                    .is_generated = true});
  if (read.config) return extended;
  const auto error = std::ranges::find(read.diagnostics, Severity::kError,
                                       &Diagnostic::severity);
  throw Error(ErrorKind::kUsage, "the extended search: " + error->message);
}

void RecordExtension(Store& store, const ExperimentDetail& detail,
                     const json& config, Timestamp now) {
  const std::int64_t id = detail.row.id;
  store.Write([&](StoreWriter& writer) {
    // Read inside the transaction, so that no other writer interferes.
    ExperimentDetail present = FindExperimentDetail(store, id);
    if (present.config != detail.config ||
        present.row.state != detail.row.state) {
      throw Error(ErrorKind::kStore,
                  "experiment " + std::to_string(id) +
                      " has changed in this moment; try again");
    }
    json& extended = present.provenance[kExtended];
    if (extended.is_null()) {
      extended = {{"searcher", present.config.at("searcher")},
                  {"plans", json::array()}};
    }
    extended["plans"].push_back(
        {{"time", FormatTimestamp(now)},
         {"max_trials", config.at("searcher").at("max_trials")},
         {"budget", config.at("searcher").value("budget", json())}});
    writer.SetConfig(id, config);
    writer.SetProvenance(id, present.provenance);
    // A run that is killed before it begins leaves an experiment to resume.
    if (present.row.state == State::kCompleted) {
      writer.SetExperimentState(id, State::kPaused, now);
    }
    // An estimate for the new plan, until the runner computes it.
    const json& before = present.config.at("searcher").at("max_trials");
    const json& after = config.at("searcher").at("max_trials");
    writer.SetExperimentProgress(
        id, present.row.progress * before.get<double>() / after.get<double>());
  });
}

}  // namespace dtrain
