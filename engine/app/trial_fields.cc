// The values of trials that --filter, --sort and --columns name: columns of the
// trial, hyperparameters (hp.NAME) and metrics (NAME, or min(NAME), at(NAME,
// LENGTH) and the like).
//
// A filter of 10,000 trials must not read all that is stored of them. So a
// field says which parts of the rows it needs (parts()), and the values of a
// metric are read by one query for all trials when they are first needed, and
// kept. A caller resolves all names before it lists the trials, because only
// then parts() is known.
//
// An integer that does not fit std::int64_t becomes a double. A missing value
// is monostate, with which no comparison but `is null` holds.

#include "engine/app/trial_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "engine/analysis/search_axes.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

// A column of a trial.
struct TrialColumn {
  std::string_view name;
  FieldKind kind;
  FieldValue (*value)(const TrialRow& row, Timestamp now);
};

FieldValue Count(std::int64_t count) { return count; }

FieldValue CountOrNone(std::int64_t count) {
  if (count == 0) return std::monostate();
  return count;
}

FieldValue TextOrNone(const std::string& text) {
  if (text.empty()) return std::monostate();
  return text;
}

FieldValue TimeOrNone(const std::optional<Timestamp>& time) {
  if (!time) return std::monostate();
  return *time;
}

FieldValue ValueOrNone(const std::optional<BestValidation>& validation) {
  if (!validation) return std::monostate();
  return validation->value;
}

constexpr std::array kColumns = {
    TrialColumn{"id", FieldKind::kText,
                [](const TrialRow& row, Timestamp) -> FieldValue {
                  return ToString(row.id);
                }},
    TrialColumn{
        "number", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return Count(row.id.number); }},
    TrialColumn{
        "point", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return CountOrNone(row.point); }},
    TrialColumn{
        "repeat", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return CountOrNone(row.repeat); }},
    TrialColumn{"state", FieldKind::kText,
                [](const TrialRow& row, Timestamp) -> FieldValue {
                  return std::string(StateName(row.state));
                }},
    TrialColumn{"hparams", FieldKind::kText,
                [](const TrialRow& row, Timestamp) -> FieldValue {
                  return FormatHparams(row.hparams);
                }},
    TrialColumn{
        "best", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return ValueOrNone(row.best); }},
    TrialColumn{
        "latest", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return ValueOrNone(row.latest); }},
    TrialColumn{"rung", FieldKind::kNumber,
                [](const TrialRow& row, Timestamp) { return Count(row.rung); }},
    TrialColumn{
        "batches", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return Count(row.batches); }},
    TrialColumn{
        "reason", FieldKind::kText,
        [](const TrialRow& row, Timestamp) { return TextOrNone(row.reason); }},
    TrialColumn{"duration", FieldKind::kDuration,
                [](const TrialRow& row, Timestamp now) -> FieldValue {
                  return ElapsedSeconds(row, now);
                }},
    TrialColumn{"created", FieldKind::kTime,
                [](const TrialRow& row, Timestamp) -> FieldValue {
                  return row.created;
                }},
    TrialColumn{
        "started", FieldKind::kTime,
        [](const TrialRow& row, Timestamp) { return TimeOrNone(row.started); }},
    TrialColumn{
        "ended", FieldKind::kTime,
        [](const TrialRow& row, Timestamp) { return TimeOrNone(row.ended); }},
    TrialColumn{
        "restarts", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return Count(row.restarts); }},
    TrialColumn{
        "preemptions", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return Count(row.preemptions); }},
    TrialColumn{"runs", FieldKind::kNumber,
                [](const TrialRow& row, Timestamp) { return Count(row.runs); }},
    TrialColumn{
        "slots", FieldKind::kText,
        [](const TrialRow& row, Timestamp) { return TextOrNone(row.slots); }},
    TrialColumn{
        "pid", FieldKind::kNumber,
        [](const TrialRow& row, Timestamp) { return CountOrNone(row.pid); }},
    TrialColumn{"seed", FieldKind::kNumber,
                [](const TrialRow& row, Timestamp) { return Count(row.seed); }},
    TrialColumn{"checkpoint", FieldKind::kText,
                [](const TrialRow& row, Timestamp) {
                  return TextOrNone(row.latest_checkpoint);
                }},
    TrialColumn{"star", FieldKind::kNumber,
                [](const TrialRow& row, Timestamp) { return Count(row.star); }},
    TrialColumn{"note", FieldKind::kText, [](const TrialRow& row, Timestamp) {
                  return TextOrNone(row.note);
                }}};

// Columns of the experiment of a trial, and other names of columns. A
// hyperparameter or metric of the same name comes first.
struct OriginColumn {
  std::string_view name;
  FieldKind kind;
  FieldValue (*value)(const ExperimentRow& row);
};

constexpr std::array kOriginColumns = {
    OriginColumn{"experiment", FieldKind::kNumber,
                 [](const ExperimentRow& row) { return Count(row.id); }},
    OriginColumn{
        "name", FieldKind::kText,
        [](const ExperimentRow& row) -> FieldValue { return row.name; }},
    OriginColumn{
        "label", FieldKind::kTexts,
        [](const ExperimentRow& row) -> FieldValue { return row.labels; }}};

constexpr std::array kOtherNames = {
    std::pair<std::string_view, std::string_view>{"trial", "number"},
    std::pair<std::string_view, std::string_view>{"seconds", "duration"}};

std::string_view KindText(FieldKind kind) {
  switch (kind) {
    case FieldKind::kText:
      return "text";
    case FieldKind::kTexts:
      return "texts";
    case FieldKind::kTime:
      return "time";
    case FieldKind::kDuration:
      return "duration";
    case FieldKind::kAny:
      return "any";
    case FieldKind::kNumber:
    case FieldKind::kBytes:
    case FieldKind::kShare:
      break;
  }
  return "number";
}

const TrialColumn* FindColumn(std::string_view name) {
  const auto found = std::ranges::find(kColumns, name, &TrialColumn::name);
  return found == kColumns.end() ? nullptr : found;
}

// "a, b, c", of many only the first.
std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 20;
  if (names.empty()) return "none";
  if (names.size() <= kMaxNames) return Join(names, ", ");
  return Join(std::span(names).first(kMaxNames), ", ") + ", ... (" +
         std::to_string(names.size()) + ")";
}

// Returns a double for an integer above 2^63 - 1.
FieldValue HparamInteger(const nlohmann::json& value) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const bool fits =
      !value.is_number_unsigned() ||
      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMax);
  if (fits) return value.get<std::int64_t>();
  return value.get<double>();
}

MetricPick ToMetricPick(FieldFunction function) {
  switch (function) {
    case FieldFunction::kMin:
      return MetricPick::kMin;
    case FieldFunction::kMax:
      return MetricPick::kMax;
    case FieldFunction::kLast:
      return MetricPick::kLast;
    case FieldFunction::kNone:
    case FieldFunction::kAt:
    case FieldFunction::kSpark:
      break;
  }
  return MetricPick::kBest;
}

}  // namespace

nlohmann::json TrialColumnsJson() {
  nlohmann::json columns = nlohmann::json::array();
  const auto add = [&](std::string_view name, FieldKind kind,
                       std::string_view meaning, bool weak) {
    columns.push_back({name, KindText(kind), meaning, weak});
  };
  for (const TrialColumn& one : kColumns) {
    add(one.name, one.kind, one.name, /*weak=*/false);
  }
  for (const OriginColumn& one : kOriginColumns) {
    add(one.name, one.kind, one.name, /*weak=*/true);
  }
  for (const auto& [name, column] : kOtherNames) {
    add(name, FindColumn(column)->kind, column, /*weak=*/true);
  }
  return columns;
}

bool IsTrialColumn(std::string_view name) {
  return FindColumn(name) != nullptr;
}

FieldValue HparamValue(const nlohmann::json& value) {
  if (value.is_null() || value.is_discarded()) return std::monostate();
  if (value.is_number_integer()) return HparamInteger(value);
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return FormatValue(value);
}

FieldValue HparamValue(const nlohmann::json& hparams, const std::string& name) {
  const nlohmann::json* value = FindMember(hparams, name);
  if (value == nullptr) return std::monostate();
  return HparamValue(*value);
}

std::vector<TrialRow> WithAllParts(const Store& store,
                                   const ExperimentRow& experiment,
                                   const std::vector<TrialRow>& rows) {
  // A query for one trial takes longer than its part of a query for all.
  constexpr std::size_t kFewTrials = 200;
  std::vector<TrialRow> complete;
  if (rows.size() <= kFewTrials) {
    for (const TrialRow& row : rows) {
      complete.push_back(FindTrial(store, experiment, row.id.number));
    }
    return complete;
  }
  const auto all = ListTrials(store, experiment);
  for (const TrialRow& row : rows) {
    const auto found = std::ranges::lower_bound(all, row.id, {}, &TrialRow::id);
    if (found != all.end() && found->id == row.id) complete.push_back(*found);
  }
  return complete;
}

TrialFields::TrialFields(const Store& store, const ExperimentDetail& experiment,
                         Timestamp now, bool utf8,
                         std::optional<std::int64_t> only)
    : store_(store),
      experiment_(experiment),
      now_(now),
      utf8_(utf8),
      only_(only) {}

QueryContext TrialFields::Context(const std::string& option) {
  return {.option = option,
          .resolve = [this](const FieldName& field) { return Resolve(field); },
          .now = now_};
}

bool TrialFields::HasMetric(const std::string& name) {
  if (!metrics_) metrics_ = store_.MetricNames(experiment_.row.id);
  return std::ranges::binary_search(*metrics_, name);
}

const nlohmann::json& TrialFields::Space() const {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const auto space = experiment_.config.find("hyperparameters");
  return space == experiment_.config.end() ? kEmpty : *space;
}

const HparamName* TrialFields::FindHparam(const std::string& name) {
  if (!hparams_) hparams_ = HparamNames(Space());
  const auto found = std::ranges::find(*hparams_, name, &HparamName::name);
  return found == hparams_->end() ? nullptr : &*found;
}

bool TrialFields::HasHparam(const std::string& name) {
  return FindHparam(name) != nullptr;
}

void TrialFields::FailUnknown(const std::string& name) {
  const std::string batches(UnitName(Unit::kBatches));
  const std::string counted(UnitName(CountedUnit(store_, experiment_.row.id)));
  std::vector<std::string> columns;
  for (const TrialColumn& column : kColumns) {
    columns.emplace_back(column.name == batches ? counted : column.name);
  }
  std::vector<std::string> hparams;
  (void)HasHparam("");
  for (const HparamName& hparam : *hparams_) {
    hparams.push_back(std::string(kHparamPrefix) + hparam.name);
  }
  (void)HasMetric("");
  for (const OriginColumn& column : kOriginColumns) {
    columns.emplace_back(column.name);
  }
  std::vector<std::string> all = columns;
  all.push_back(batches);
  for (const auto& [other, column] : kOtherNames) all.emplace_back(other);
  all.insert(all.end(), hparams.begin(), hparams.end());
  all.insert(all.end(), metrics_->begin(), metrics_->end());
  const std::string guess = DidYouMean(name, all);
  throw Error(ErrorKind::kNotFound,
              "experiment " + std::to_string(experiment_.row.id) +
                  " has no column, hyperparameter or metric '" + name + "'" +
                  (guess.empty() ? ";" : guess) +
                  " columns: " + Join(columns, ", ") + "; hyperparameters: " +
                  Listed(hparams) + "; metrics: " + Listed(*metrics_));
}

void TrialFields::AddColumnNote(const std::string& name, bool is_metric,
                                bool is_hparam) {
  std::string others;
  if (is_hparam) {
    others += "; the hyperparameter is " + std::string(kHparamPrefix) + name;
  }
  if (is_metric) {
    others += "; the metric is " + std::string(kMetricPrefix) + name;
  }
  if (!others.empty()) {
    notes_.push_back("'" + name + "' is the column" + others);
  }
}

TrialFields::Place TrialFields::ResolvePlace(const FieldName& field) {
  const std::string& name = field.name;
  if (field.function != FieldFunction::kNone) {
    const std::string metric =
        HasMetric(name) || !name.starts_with(kMetricPrefix)
            ? name
            : name.substr(kMetricPrefix.size());
    if (!HasMetric(metric)) FailUnknown(metric);
    return {Meaning::kMetric, metric};
  }
  const bool is_metric = HasMetric(name);
  const bool is_hparam = HasHparam(name);
  if (FindColumn(name) != nullptr) {
    AddColumnNote(name, is_metric, is_hparam);
    return {Meaning::kColumn, name};
  }
  const bool is_part = is_hparam && !FindHparam(name)->whole.empty();
  if (is_metric && is_hparam && !is_part) {
    throw Error(ErrorKind::kUsage,
                "'" + name +
                    "' may be a hyperparameter or a metric; write hp." + name +
                    " or metric." + name);
  }
  if (is_metric) return {Meaning::kMetric, name};
  if (is_hparam) return {Meaning::kHparam, name};
  if (name.starts_with(kHparamPrefix) &&
      HasHparam(name.substr(kHparamPrefix.size()))) {
    return {Meaning::kHparam, name.substr(kHparamPrefix.size())};
  }
  if (name.starts_with(kMetricPrefix) &&
      HasMetric(name.substr(kMetricPrefix.size()))) {
    return {Meaning::kMetric, name.substr(kMetricPrefix.size())};
  }
  for (const auto& [other, column] : kOtherNames) {
    if (name == other) return {Meaning::kColumn, std::string(column)};
  }
  if (std::ranges::count(kOriginColumns, name, &OriginColumn::name)) {
    return {Meaning::kExperiment, name};
  }
  // The column has also the name of what it counts, as in the table.
  if (name == UnitName(CountedUnit(store_, experiment_.row.id))) {
    return {Meaning::kColumn, std::string(UnitName(Unit::kBatches))};
  }
  FailUnknown(name);
}

ResolvedField TrialFields::Resolve(const FieldName& field) {
  auto found = places_.find(field);
  if (found == places_.end()) {
    found = places_.emplace(field, ResolvePlace(field)).first;
  }
  const Place& place = found->second;
  switch (place.meaning) {
    case Meaning::kColumn: {
      parts_.checkpoints |= place.name == "checkpoint";
      parts_.hparams |= place.name == "hparams";
      const FieldKind kind = FindColumn(place.name)->kind;
      if (place.name == "state") return {.kind = kind, .words = StateNames()};
      if (place.name != "id") return {kind};
      return {.kind = kind,
              .hint = "'id' is a text; 'number' is the trial's number"};
    }
    case Meaning::kExperiment:
      return {std::ranges::find(kOriginColumns, place.name, &OriginColumn::name)
                  ->kind};
    case Meaning::kHparam:
      if (std::ranges::count(named_hparams_, place.name) == 0) {
        named_hparams_.push_back(place.name);
      }
      return {FieldKind::kAny};
    case Meaning::kMetric:
      break;
  }
  if (field.function == FieldFunction::kSpark) return {FieldKind::kText};
  // Lengths that no trial has are found only among the values.
  if (field.function == FieldFunction::kAt) (void)GetValues(field, place.name);
  return {FieldKind::kNumber};
}

std::vector<FieldName> TrialFields::Expand(const std::string& pattern) {
  if (pattern != "hp.*") FailUnknown(pattern);
  std::vector<std::string> names;
  for (const SearchAxis& axis : SearchAxes(Space(), /*grid=*/false)) {
    if (!axis.constant() && !axis.is_part) names.push_back(axis.name);
  }
  if (names.empty()) {
    for (const HparamName& one : HparamNames(Space())) {
      if (one.whole.empty()) names.push_back(one.name);
    }
  }
  std::vector<FieldName> fields;
  for (const std::string& name : names) {
    fields.push_back({.name = std::string(kHparamPrefix) + name});
    (void)Resolve(fields.back());
  }
  return fields;
}

bool TrialFields::IsMetric(const FieldName& field) {
  (void)Resolve(field);
  return places_.at(field).meaning == Meaning::kMetric;
}

FieldValue TrialFields::GetValue(const TrialRow& row, const FieldName& field) {
  const Place& place = places_.at(field);
  switch (place.meaning) {
    case Meaning::kColumn:
      return FindColumn(place.name)->value(row, now_);
    case Meaning::kExperiment:
      return std::ranges::find(kOriginColumns, place.name, &OriginColumn::name)
          ->value(experiment_.row);
    case Meaning::kHparam:
      return GetHparam(row, place.name);
    case Meaning::kMetric:
      break;
  }
  if (field.function == FieldFunction::kSpark) {
    return TextOrNone(Spark(row.id.number, place.name));
  }
  const bool is_best = field.function == FieldFunction::kNone &&
                       place.name == experiment_.row.metric && row.best;
  if (is_best) return row.best->value;
  const Values& values = GetValues(field, place.name);
  const auto found = values.find(row.id.number);
  if (found == values.end()) return std::monostate();
  return found->second;
}

FieldValue TrialFields::GetHparam(const TrialRow& row,
                                  const std::string& name) {
  if (!row.hparams.is_null()) return HparamValue(row.hparams, name);
  if (read_hparams_ < named_hparams_.size()) ReadHparams();
  const auto values = hparam_values_.find(row.id.number);
  if (values == hparam_values_.end()) return std::monostate();
  const auto index = std::ranges::find(named_hparams_, name);
  return values
      ->second[static_cast<std::size_t>(index - named_hparams_.begin())];
}

void TrialFields::ReadHparams() {
  hparam_values_.clear();
  store_.ForEachHparams(
      experiment_.row.id, named_hparams_,
      [&](std::int64_t trial, std::span<const nlohmann::json> values) {
        std::vector<FieldValue> own;
        own.reserve(values.size());
        for (const auto& value : values) own.push_back(HparamValue(value));
        hparam_values_.emplace_hint(hparam_values_.end(), trial,
                                    std::move(own));
      });
  read_hparams_ = named_hparams_.size();
}

const TrialFields::Values& TrialFields::GetValues(const FieldName& field,
                                                  const std::string& metric) {
  const auto found = values_.find(field);
  if (found != values_.end()) return found->second;
  Values values;
  if (field.function == FieldFunction::kAt) {
    values = ReadAt(field, metric);
  } else {
    // Training and validation may report metrics of one name.
    for (const MetricKind kind :
         {MetricKind::kValidation, MetricKind::kTraining}) {
      values = store_.TrialMetric(experiment_.row.id, only_, kind, metric,
                                  ToMetricPick(field.function));
      if (!values.empty()) break;
    }
  }
  return values_.emplace(field, std::move(values)).first->second;
}

TrialFields::Values TrialFields::ReadAt(const FieldName& field,
                                        const std::string& metric) const {
  return ReadTrialValues(store_, experiment_, metric,
                         ValuePlace{.kind = ValuePlace::Kind::kLength,
                                    .length = field.length})
      .values;
}

std::string TrialFields::Spark(std::int64_t trial,
                               const std::string& metric) const {
  std::vector<double> values;
  for (const MetricKind kind :
       {MetricKind::kValidation, MetricKind::kTraining}) {
    store_.ForEachMetric(
        {.experiment = experiment_.row.id,
         .trial = trial,
         .kind = kind,
         .name = metric},
        [&](const MetricRow& row) { values.push_back(row.value); });
    if (!values.empty()) break;
  }
  return Sparkline(values, kSparkWidth, utf8_);
}

struct JointFields::Member {
  std::int64_t experiment;
  TrialFields fields;
  std::set<FieldName> unknown;  // that only other experiments know
};

JointFields::JointFields(const Store& store,
                         const std::vector<ExperimentDetail>& experiments,
                         Timestamp now, bool utf8)
    : now_(now) {
  for (const ExperimentDetail& one : experiments) {
    members_.push_back(std::make_unique<Member>(
        Member{.experiment = one.row.id,
               .fields = TrialFields(store, one, now, utf8),
               .unknown = {}}));
  }
}

JointFields::~JointFields() = default;

QueryContext JointFields::Context(const std::string& option) {
  return {.option = option,
          .resolve = [this](const FieldName& field) { return Resolve(field); },
          .now = now_};
}

ResolvedField JointFields::Resolve(const FieldName& field) {
  std::optional<ResolvedField> found;
  std::optional<Error> first;
  for (const auto& member : members_) {
    try {
      ResolvedField own = member->fields.Resolve(field);
      if (!found) {
        found = std::move(own);
      } else if (found->kind != own.kind) {
        found->kind = FieldKind::kAny;
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      if (!first) first = error;
      member->unknown.insert(field);
    }
  }
  if (!found) throw *std::move(first);
  return *std::move(found);
}

std::vector<FieldName> JointFields::Expand(const std::string& pattern) {
  std::vector<FieldName> fields;
  for (const auto& member : members_) {
    for (FieldName& field : member->fields.Expand(pattern)) {
      if (std::ranges::find(fields, field) != fields.end()) continue;
      (void)Resolve(field);
      fields.push_back(std::move(field));
    }
  }
  return fields;
}

FieldValue JointFields::GetValue(const TrialRow& row, const FieldName& field) {
  for (const auto& member : members_) {
    if (member->experiment != row.id.experiment) continue;
    if (member->unknown.contains(field)) break;
    return member->fields.GetValue(row, field);
  }
  return std::monostate();
}

TrialParts JointFields::parts() const {
  TrialParts parts{.hparams = false, .checkpoints = false};
  for (const auto& member : members_) {
    parts.hparams |= member->fields.parts().hparams;
    parts.checkpoints |= member->fields.parts().checkpoints;
  }
  return parts;
}

bool JointFields::IsMetric(const FieldName& field) {
  (void)Resolve(field);
  return std::ranges::any_of(members_, [&](const auto& member) {
    return !member->unknown.contains(field) && member->fields.IsMetric(field);
  });
}

std::vector<std::string> JointFields::notes() const {
  std::vector<std::string> notes;
  for (const auto& member : members_) {
    for (const std::string& note : member->fields.notes()) {
      if (std::ranges::count(notes, note) == 0) notes.push_back(note);
    }
  }
  return notes;
}

}  // namespace dtrain
