#include "engine/app/experiment_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/analysis/importance.h"
#include "engine/analysis/search_axes.h"
#include "engine/analysis/statistics.h"
#include "engine/app/plot_data.h"
#include "engine/app/stores.h"
#include "engine/app/system_use.h"
#include "engine/app/trial_files.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/page/redaction.h"
#include "engine/report/json_view.h"
#include "engine/report/profile_view.h"
#include "engine/report/system_view.h"
#include "engine/run/points.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

// The data of the page has two parts: a document with everything that is read
// by name, and columns of numbers. Metrics are the bulk of it. Their rows are
// grouped by series, the values of one metric of one trial, so that batches and
// times grow within a series and compress to almost nothing as differences.
//
// SeriesCollector keeps a bounded number of rows: beyond it, series are thinned
// to the points that show in a plot of so many columns, and to half as many as
// often as that is too many. The number of rows is known only at the end, so
// thinning starts over from what is kept, never from the store.
//
// A live page reads metrics in queries of some 20 ms, each from the last
// complete report of the one before it (MetricPlace).

namespace dtrain {
namespace {

using nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kQuantile = 0.1;              // of importance
constexpr std::int64_t kLogLines = 40;         // of a trial that failed
constexpr std::size_t kMaxLogs = 50;           // trials
constexpr std::size_t kMaxLogBytes = 8 << 10;  // of a trial
constexpr std::size_t kColumns = 1 << 18;      // at most, of a thinned series

double SecondsSince(Timestamp start, const std::optional<Timestamp>& time) {
  if (!time) return kNone;
  return std::chrono::duration<double>(*time - start).count();
}

json MillisecondsJson(const std::optional<Timestamp>& time) {
  if (!time) return nullptr;
  return std::chrono::duration_cast<std::chrono::milliseconds>(*time).count();
}

// ---- Trials.

json TrialColumns(const std::vector<TrialRow>& trials, Timestamp start,
                  Bundle& bundle) {
  std::vector<std::int64_t> numbers, batches, best_batches, restarts,
      preemptions, runs, pids, seeds, rungs, states;
  std::vector<double> best, latest, created, started, ended, seconds;
  std::vector<Span> spans;
  for (const TrialRow& trial : trials) {
    numbers.push_back(trial.id.number);
    states.push_back(static_cast<std::int64_t>(trial.state));
    batches.push_back(trial.batches);
    best.push_back(trial.best ? trial.best->value : kNone);
    best_batches.push_back(trial.best ? trial.best->batches : 0);
    latest.push_back(trial.latest ? trial.latest->value : kNone);
    created.push_back(SecondsSince(start, trial.created));
    started.push_back(SecondsSince(start, trial.started));
    ended.push_back(SecondsSince(start, trial.ended));
    seconds.push_back(trial.seconds);
    restarts.push_back(trial.restarts);
    preemptions.push_back(trial.preemptions);
    runs.push_back(trial.runs);
    pids.push_back(trial.pid);
    seeds.push_back(trial.seed);
    rungs.push_back(trial.rung);
    if (std::isnan(started.back())) continue;
    const double end = std::isnan(ended.back()) ? started.back() + trial.seconds
                                                : ended.back();
    spans.push_back({started.back(), std::max(end, started.back())});
  }
  std::vector<std::int64_t> lanes(trials.size());
  const std::vector<std::size_t> packed = PackLanes(spans);
  for (std::size_t i = 0, next = 0; i < trials.size(); ++i) {
    if (!std::isnan(started[i])) {
      lanes[i] = static_cast<std::int64_t>(packed[next++]);
    }
  }
  return {{"number", bundle.Deltas(numbers)},
          {"state", bundle.Integers(states)},
          {"batches", bundle.Integers(batches)},
          {"best", bundle.Doubles(best)},
          {"best_batches", bundle.Integers(best_batches)},
          {"latest", bundle.Doubles(latest)},
          {"created", bundle.Doubles(created)},
          {"started", bundle.Doubles(started)},
          {"ended", bundle.Doubles(ended)},
          {"seconds", bundle.Floats(seconds)},
          {"restarts", bundle.Integers(restarts)},
          {"preemptions", bundle.Integers(preemptions)},
          {"runs", bundle.Integers(runs)},
          {"pid", bundle.Integers(pids)},
          {"seed", bundle.Integers(seeds)},
          {"rung", bundle.Integers(rungs)},
          {"lane", bundle.Integers(lanes)}};
}

json RunColumns(const std::vector<TrialRun>& runs, Bundle& bundle) {
  std::vector<std::int64_t> trials, lanes;
  std::vector<double> from, to;
  for (const TrialRun& run : runs) {
    trials.push_back(run.trial);
    lanes.push_back(static_cast<std::int64_t>(run.lane));
    from.push_back(run.span.begin);
    to.push_back(run.span.end);
  }
  return {{"trial", bundle.Deltas(trials)},
          {"from", bundle.Floats(from)},
          {"to", bundle.Floats(to)},
          {"lane", bundle.Integers(lanes)}};
}

// A text of the trials that have one, by number.
json TrialTexts(const std::vector<TrialRow>& trials,
                std::string TrialRow::*text) {
  json texts = json::object();
  for (const TrialRow& trial : trials) {
    if (!(trial.*text).empty()) {
      texts[std::to_string(trial.id.number)] = trial.*text;
    }
  }
  return texts;
}

std::string LogTail(const Store& store, TrialId trial) {
  std::string text;
  TrialLogReader reader(store.layout().TrialLog(trial));
  reader.SeekToTail(kLogLines);
  while (const auto record = reader.Next()) text += record->text + "\n";
  if (text.size() <= kMaxLogBytes) return text;
  return text.substr(text.size() - kMaxLogBytes);
}

// The last log lines of trials that failed, by number.
json FailureLogs(const Store& store, const std::vector<TrialRow>& trials) {
  json logs = json::object();
  for (const TrialRow& trial : trials) {
    if (trial.state != State::kError || logs.size() >= kMaxLogs) continue;
    try {
      logs[std::to_string(trial.id.number)] = LogTail(store, trial.id);
    } catch (const Error& error) {
      logs[std::to_string(trial.id.number)] = error.what();
    }
  }
  return logs;
}

// Adds `profiles` and `system`: what each profiled or sampled trial used, by
// its number.
void AddUses(const Store& store, const ExperimentDetail& detail,
             const std::vector<TrialRow>& trials, json& data) {
  const auto profiles = store.Profiles(detail.row.id);
  const auto uses = store.SystemUses(detail.row.id);
  UseContext context = TrialUseContext(detail, /*profile=*/{});
  data["profiles"] = data["system"] = json::object();
  for (const TrialRow& trial : trials) {
    const std::string number = std::to_string(trial.id.number);
    context.profile.reset();
    if (const auto found = profiles.find(trial.id.number);
        found != profiles.end()) {
      context.profile = found->second;
      data["profiles"][number] = ProfileJson(found->second);
    }
    if (const auto found = uses.find(trial.id.number); found != uses.end()) {
      data["system"][number] = SystemUseJson(found->second, context);
    }
  }
}

// Hyperparameters that are not searched, by flattened name.
json Constants(const std::vector<SearchAxis>& axes,
               const std::vector<TrialRow>& trials) {
  json constants = json::object();
  if (trials.empty()) return constants;
  for (const auto& [name, value] : FlattenNames(trials.front().hparams)) {
    const bool searched =
        std::ranges::find(axes, name, &SearchAxis::name) != axes.end();
    if (!searched) constants[name] = ExactIntegers(value);
  }
  return constants;
}

json CheckpointColumns(const Store& store, std::int64_t experiment,
                       const TrialSelection& selection, Bundle& bundle) {
  std::vector<std::int64_t> trials, batches, bytes;
  json uuids = json::array();
  for (const CheckpointRow& row : store.Checkpoints(experiment)) {
    if (!selection.Has(row.trial)) continue;
    trials.push_back(row.trial.number);
    batches.push_back(row.batches);
    bytes.push_back(row.bytes);
    uuids.push_back(row.uuid);
  }
  return {{"trial", bundle.Deltas(trials)},
          {"batches", bundle.Integers(batches)},
          {"bytes", bundle.Integers(bytes)},
          {"uuid", std::move(uuids)}};
}

json AxisJson(const SearchAxis& axis, const std::vector<TrialRow>& trials,
              Bundle& bundle) {
  std::vector<double> places;
  json exact = json::object();  // large integers, by the place of the trial
  for (const TrialRow& trial : trials) {
    const json* value = FindMember(trial.hparams, axis.name);
    const json text = value == nullptr ? json() : ExactIntegers(*value);
    const bool is_large = text.is_string() && !value->is_string();
    if (is_large) exact[std::to_string(places.size())] = text;
    places.push_back(PlaceOn(axis, trial.hparams));
  }
  const json choices = ExactIntegers(axis.choices);
  return {{"name", axis.name},
          {"conditional", !axis.when.is_null() || axis.is_part},
          {"log", axis.log},
          {"low", axis.low},
          {"high", axis.high},
          {"choices", choices},
          {"values", bundle.Doubles(places)},
          {"exact", std::move(exact)}};
}

// ---- Metrics.

struct SeriesRow {
  std::int64_t batches = 0;
  std::int64_t milliseconds = 0;  // since the experiment's creation
  double value = 0;
};

struct Series {
  std::int64_t trial = 0;
  std::size_t metric = 0;  // index in the list of metrics
  std::vector<SeriesRow> rows;
};

// True unless single precision would make the value infinite or 0.
bool FitsFloat(double value) {
  return !std::isfinite(value) || value == 0 ||
         std::isnormal(static_cast<float>(value));
}

// Collects all metrics of an experiment by series, in bounded memory: beyond
// `max_rows`, the longest series are thinned, no more of them than it takes.
// The value at a trial's best validation is always kept.
class SeriesCollector {
 public:
  SeriesCollector(const ExperimentRow& experiment,
                  const std::vector<TrialRow>& trials, std::size_t max_rows)
      : experiment_(experiment), max_rows_(max_rows) {
    for (const TrialRow& trial : trials) {
      if (trial.best) best_batches_[trial.id.number] = trial.best->batches;
    }
  }

  void Add(const MetricRow& row) {
    if (row.trial.number != trial_) Flush();
    trial_ = row.trial.number;
    const auto key = std::pair(row.kind, row.name);
    const auto [found, is_new] = metrics_.emplace(key, metrics_.size());
    if (is_new) names_.push_back(key);
    Series& series = open_[found->second];
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
        row.time - experiment_.created);
    series.rows.push_back(
        {row.batches, std::max<std::int64_t>(since.count(), 0), row.value});
    ++total_;
    if (row.epoch > 0) {
      batches_per_epoch_ = static_cast<double>(row.batches) / row.epoch;
    }
  }

  void Flush() {
    for (auto& [metric, series] : open_) {
      series.trial = trial_;
      series.metric = metric;
      kept_ += series.rows.size();
      all_.push_back(std::move(series));
    }
    open_.clear();
    // The number of rows is known only at the end. One series after the other
    // is thinned until they are few enough; after the last one, again from the
    // first to half as many columns.
    while (kept_ > max_rows_) {
      if (next_ == all_.size()) {
        if (columns_ == 1) break;
        columns_ /= 2;
        next_ = 0;
      }
      Series& series = all_[next_++];
      const std::size_t rows = series.rows.size();
      Thin(series);
      kept_ -= rows - series.rows.size();
    }
  }

  json ToJson(Bundle& bundle) const {
    std::vector<std::int64_t> trials, metrics, counts, batches, times;
    std::vector<double> values;
    for (const Series& series : all_) {
      trials.push_back(series.trial);
      metrics.push_back(static_cast<std::int64_t>(series.metric));
      counts.push_back(static_cast<std::int64_t>(series.rows.size()));
      for (const SeriesRow& row : series.rows) {
        batches.push_back(row.batches);
        times.push_back(row.milliseconds);
        values.push_back(row.value);
      }
    }
    json names = json::array();
    for (const auto& [kind, name] : names_) {
      names.push_back({{"name", name}, {"kind", MetricKindName(kind)}});
    }
    return {{"names", std::move(names)},
            {"rows", total_},
            {"kept", kept_},
            {"thinned", kept_ < total_},
            {"batches_per_epoch",
             batches_per_epoch_ ? json(*batches_per_epoch_) : json(nullptr)},
            {"trial", bundle.Deltas(trials)},
            {"metric", bundle.Integers(metrics)},
            {"count", bundle.Integers(counts)},
            {"batches", bundle.Deltas(batches)},
            {"milliseconds", bundle.Deltas(times)},
            {"value", std::ranges::all_of(values, FitsFloat)
                          ? bundle.Floats(values)
                          : bundle.Doubles(values)}};
  }

 private:
  // Keeps the points that show in a plot of `columns_` columns, and the
  // validation that is the trial's best, which the page marks.
  void Thin(Series& series) const {
    std::vector<CurvePoint> curve;
    for (const SeriesRow& row : series.rows) {
      curve.emplace_back(static_cast<double>(row.batches), row.value);
    }
    std::vector<std::size_t> places = DecimatedPoints(curve, columns_);
    const auto best = best_batches_.find(series.trial);
    if (best != best_batches_.end()) {
      const auto after = std::ranges::upper_bound(series.rows, best->second, {},
                                                  &SeriesRow::batches);
      if (after != series.rows.begin()) {
        places.push_back(static_cast<std::size_t>(after - series.rows.begin()) -
                         1);
      }
    }
    std::ranges::sort(places);
    const auto repeated = std::ranges::unique(places);
    places.erase(repeated.begin(), repeated.end());
    std::vector<SeriesRow> kept;
    for (const std::size_t i : places) kept.push_back(series.rows[i]);
    series.rows = std::move(kept);
  }

  const ExperimentRow& experiment_;
  const std::size_t max_rows_;
  std::map<std::int64_t, std::int64_t> best_batches_;  // by trial
  std::map<std::pair<MetricKind, std::string>, std::size_t> metrics_;
  std::vector<std::pair<MetricKind, std::string>> names_;
  std::map<std::size_t, Series> open_;  // of the trial that is read
  std::vector<Series> all_;
  std::optional<double> batches_per_epoch_;
  std::int64_t trial_ = 0;
  std::size_t total_ = 0;
  std::size_t kept_ = 0;
  std::size_t columns_ = kColumns;  // to which a series is thinned
  std::size_t next_ = 0;            // series that is to be thinned next
};

// Rows of one query of a live page: some 20 ms, in which the store is read.
constexpr std::int64_t kPageRows = 40'000;

// Adds the rows of `query`, at most kPageRows. If there are more, returns the
// place of the last complete report.
std::optional<MetricPlace> AddPage(const Store& store, MetricQuery query,
                                   SeriesCollector& metrics) {
  query.limit = kPageRows;
  std::vector<MetricRow> rows;
  store.ForEachMetric(query,
                      [&](const MetricRow& row) { rows.push_back(row); });
  const auto place = [](const MetricRow& row) {
    return std::tuple(row.trial.number, row.kind, row.batches);
  };
  std::size_t whole = rows.size();
  if (rows.size() == static_cast<std::size_t>(kPageRows)) {
    while (whole > 0 && place(rows[whole - 1]) == place(rows.back())) --whole;
    if (whole == 0) whole = rows.size();  // a report of that many metrics
  }
  for (std::size_t i = 0; i < whole; ++i) metrics.Add(rows[i]);
  if (rows.size() < static_cast<std::size_t>(kPageRows)) return std::nullopt;
  const MetricRow& last = rows[whole - 1];
  return MetricPlace{last.trial.number, last.kind, last.batches};
}

constexpr std::array kKinds = {MetricKind::kTraining, MetricKind::kValidation};

// Adds the rows after `place`.
std::optional<MetricPlace> AddFrom(const Store& store, std::int64_t experiment,
                                   MetricPlace place,
                                   SeriesCollector& metrics) {
  if (place.after >= 0) {
    for (const MetricKind kind : kKinds) {
      if (kind < place.kind) continue;
      const auto next =
          AddPage(store,
                  {.experiment = experiment,
                   .trial = place.trial,
                   .kind = kind,
                   .after = kind == place.kind ? place.after : -1},
                  metrics);
      if (next) return next;
    }
    ++place.trial;
  }
  return AddPage(store, {.experiment = experiment, .first_trial = place.trial},
                 metrics);
}

// ---- Analysis.

json ImportanceJson(const Store& store, const ExperimentDetail& detail,
                    const std::vector<SearchAxis>& axes,
                    const TrialValues& values) {
  const auto outcomes = ReadOutcomes(store, detail, axes, values);
  const std::size_t finite = CountFinite(outcomes);
  if (finite < kMinImportanceTrials) {
    return {{"why", std::to_string(finite) +
                        " trials have a finite value, and importance needs " +
                        std::to_string(kMinImportanceTrials)}};
  }
  const bool smaller = detail.row.smaller_is_better;
  json items = json::array();
  for (const HparamImportance& one :
       HparamImportances(axes, outcomes, smaller, kQuantile)) {
    items.push_back({{"name", one.name},
                     {"share", one.share},
                     {"low", one.low},
                     {"high", one.high},
                     {"correlation", one.correlation ? json(*one.correlation)
                                                     : json(nullptr)}});
  }
  return {{"items", std::move(items)},
          {"place", values.PlaceText()},
          {"trials", finite},
          {"best", CountBest(outcomes, smaller, kQuantile)}};
}

// Sets `importance`, and if there is a bundle `compared`: the trials' values at
// the length at which importance compares them, NaN without one.
void AddImportance(const Store& store, const ExperimentDetail& detail,
                   const std::vector<SearchAxis>& axes,
                   const TrialSelection& selection,
                   const std::vector<TrialRow>& trials, Bundle* bundle,
                   json& data) {
  TrialValues values;
  std::string why = axes.empty() ? "the search has no hyperparameters" : "";
  try {
    values = ReadTrialValues(store, detail, detail.row.metric, {},
                             selection.Numbers(detail.row.id));
  } catch (const Error& error) {
    if (why.empty()) why = error.what();
  }
  if (bundle != nullptr) {
    std::vector<double> numbers;
    for (const TrialRow& trial : trials) {
      const auto found = values.values.find(trial.id.number);
      numbers.push_back(found == values.values.end() ? kNone : found->second);
    }
    data["compared"] = {{"place", values.PlaceText()},
                        {"values", bundle->Doubles(numbers)}};
  }
  data["importance"] = why.empty() ? ImportanceJson(store, detail, axes, values)
                                   : json{{"why", why}};
}

json RungsJson(const std::vector<TrialRow>& trials) {
  std::vector<RungProgress> progress;
  for (const TrialRow& trial : trials) {
    progress.push_back({.completed = static_cast<std::size_t>(trial.rung),
                        .end = RungEnd(trial.state)});
  }
  json rungs = json::array();
  for (const RungCount& one : CountRungs(progress)) {
    rungs.push_back({{"reached", one.reached()},
                     {"went_on", one.went_on},
                     {"completed", one.completed},
                     {"ended", one.ended},
                     {"open", one.open}});
  }
  return rungs;
}

std::vector<SearchAxis> ReadSearchAxes(const ExperimentDetail& detail) {
  return SearchAxes(detail.config.value("hyperparameters", json::object()),
                    detail.row.searcher == "grid");
}

// Returns the trials that the experiment confirms, each with a text.
json ConfirmedJson(const Store& store, const ExperimentDetail& detail) {
  json rows = json::array();
  if (!detail.provenance.contains(kConfirms)) return rows;
  const auto trials =
      store.Trials(detail.row.id, {.hparams = false, .checkpoints = false});
  for (const ConfirmedTrial& row : ListConfirmed(trials, detail)) {
    rows.push_back(row.ToJson());
    rows.back()["text"] = row.Text();
  }
  return rows;
}

// Stars and notes by the numbers of the trials that have them: a reader sets
// them at any time, so each change of the data has all.
json RemarksJson(const Store& store, std::int64_t experiment) {
  json remarks = json::object();
  for (const TrialRemark& one : store.TrialRemarks(experiment)) {
    remarks[std::to_string(one.number)] = {{"star", one.star},
                                           {"note", one.note}};
  }
  return remarks;
}

// `best` has its position for people beside its count, and in place of a
// checkpoint what its program wrote.
json RecordJson(const Store& store, const ExperimentDetail& detail,
                const Units& units) {
  const ExperimentRow& row = detail.row;
  json best = BestJson(row.best, row.metric, {row.id, row.best_trial});
  if (row.best) {
    best["at"] = PositionText(row.best->at(), units);
    best["files"] =
        row.best->checkpoint.empty()
            ? TrialFilesText(ListTrialFiles(store, {row.id, row.best_trial}))
            : "";
  }
  return {{"id", row.id},
          {"name", row.name},
          {"description", row.description},
          {"labels", row.labels},
          {"note", detail.note},
          {"state", StateName(row.state)},
          {"error", row.error},
          {"searcher", row.searcher},
          {"metric", row.metric},
          {"smaller_is_better", row.smaller_is_better},
          {"seed", row.seed},
          {"created", MillisecondsJson(row.created)},
          {"started", MillisecondsJson(row.started)},
          {"ended", MillisecondsJson(row.ended)},
          {"seconds", row.seconds},
          {"unit", UnitName(units.counted)},
          {"best", std::move(best)},
          {"confirmed", ConfirmedJson(store, detail)},
          {"remarks", RemarksJson(store, row.id)},
          {"config", detail.config},
          {"yaml", detail.yaml},
          {"provenance", detail.provenance}};
}

}  // namespace

json ExperimentSummary(const Store& store, const ExperimentDetail& detail,
                       const PageOptions& options) {
  json data = RecordJson(store, detail, FindUnits(store, detail.row.id));
  AddImportance(store, detail, ReadSearchAxes(detail), options.selection, {},
                nullptr, data);
  data["filter"] = options.selection.ToJson(detail.row.id);
  if (options.redact) Redact(data);
  return data;
}

json ExperimentData(const Store& store, const ExperimentDetail& detail,
                    const PageOptions& options, Bundle& bundle) {
  const ExperimentRow& row = detail.row;
  std::vector<TrialRow> trials = ListTrials(store, row);
  options.selection.Keep(trials);
  const std::vector<SearchAxis> axes = ReadSearchAxes(detail);
  SeriesCollector metrics(row, trials, options.max_rows);
  const Timestamp start = row.started.value_or(row.created);
  std::map<std::int64_t, RunTimes> reports;
  const auto add = [&](const MetricRow& one) {
    if (!options.selection.Has(one.trial)) return;
    const auto time = static_cast<double>((one.time - start).count()) / 1e6;
    reports[one.trial.number].Add(time, one.run);
    if (!one.superseded) metrics.Add(one);
  };
  if (!options.without_metrics) {
    store.ForEachMetric({.experiment = row.id, .superseded = true}, add);
  }
  metrics.Flush();
  json data = RecordJson(store, detail, FindUnits(store, row.id));
  data["states"] = StateNames();
  data["trials"] = TrialColumns(trials, row.created, bundle);
  if (!options.without_metrics) {
    data["runs"] =
        RunColumns(PackRuns(trials, std::move(reports), start), bundle);
  }
  data["searched"] = json::array();
  for (const SearchAxis& axis : axes) {
    data["searched"].push_back(AxisJson(axis, trials, bundle));
  }
  data["reasons"] = TrialTexts(trials, &TrialRow::reason);
  data["slots"] = TrialTexts(trials, &TrialRow::slots);
  data["logs"] = FailureLogs(store, trials);
  AddUses(store, detail, trials, data);
  data["constants"] = Constants(axes, trials);
  data["checkpoints"] =
      CheckpointColumns(store, row.id, options.selection, bundle);
  data["metrics"] = metrics.ToJson(bundle);
  AddImportance(store, detail, axes, options.selection, trials, &bundle, data);
  data["rungs"] = RungsJson(trials);
  data["filter"] = options.selection.ToJson(row.id);
  if (options.redact) Redact(data);
  return data;
}

json ExperimentMetrics(const Store& store, const ExperimentRow& row,
                       const MetricPlace& place, Bundle& bundle) {
  SeriesCollector metrics(row, {}, std::numeric_limits<std::size_t>::max());
  const auto next = AddFrom(store, row.id, place, metrics);
  metrics.Flush();
  json data = metrics.ToJson(bundle);
  data["next"] = next ? json{{"trial", next->trial},
                             {"kind", static_cast<int>(next->kind)},
                             {"after", next->after}}
                      : json(nullptr);
  return data;
}

json ExperimentChanges(const Store& store, const ExperimentDetail& detail,
                       Timestamp since, const std::vector<KnownTrial>& known,
                       Bundle& bundle) {
  const ExperimentRow& row = detail.row;
  std::vector<TrialRow> trials =
      ListTrials(store, row, {.checkpoints = false, .changed_since = since});
  std::map<std::int64_t, KnownTrial> places;
  for (const KnownTrial& one : known) {
    places[one.number] = one;
    const auto same = [&](const TrialRow& t) {
      return t.id.number == one.number;
    };
    if (std::ranges::none_of(trials, same)) {
      trials.push_back(FindTrial(store, row, one.number));
    }
  }
  std::ranges::sort(trials, {}, [](const TrialRow& t) { return t.id.number; });
  SeriesCollector metrics(row, {}, std::numeric_limits<std::size_t>::max());
  bool more = false;
  for (const TrialRow& trial : trials) {
    const KnownTrial& place = places[trial.id.number];
    for (const MetricKind kind : kKinds) {
      const bool trains = kind == MetricKind::kTraining;
      more |= AddPage(store,
                      {.experiment = row.id,
                       .trial = trial.id.number,
                       .kind = kind,
                       .after = trains ? place.training : place.validation},
                      metrics)
                  .has_value();
    }
  }
  metrics.Flush();
  json data = RecordJson(store, detail, FindUnits(store, row.id));
  for (const char* large : {"config", "yaml", "provenance"}) data.erase(large);
  data["trials"] = TrialColumns(trials, row.created, bundle);
  data["searched"] = json::array();
  for (const SearchAxis& axis : ReadSearchAxes(detail)) {
    data["searched"].push_back(AxisJson(axis, trials, bundle));
  }
  data["reasons"] = TrialTexts(trials, &TrialRow::reason);
  data["slots"] = TrialTexts(trials, &TrialRow::slots);
  data["metrics"] = metrics.ToJson(bundle);
  data["more"] = more;
  return data;
}

}  // namespace dtrain
