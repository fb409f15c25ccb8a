#include "cli/selection.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <unistd.h>

#include "cli/command_line.h"
#include "engine/analysis/search_axes.h"
#include "engine/app/experiment_fields.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_selection.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/run/points.h"

namespace dtrain {

namespace {

// Adds the hyperparameters that `space` lacks, or has only as constants.
void MergeSpace(const nlohmann::json& more, nlohmann::json& space) {
  for (const auto& [name, value] : more.items()) {
    const auto found = space.find(name);
    if (found == space.end()) {
      space[name] = value;
    } else if (HasType(*found)) {
      continue;
    } else if (HasType(value) || !found->is_object()) {
      *found = value;
    } else if (value.is_object()) {
      MergeSpace(value, *found);
    }
  }
}

}  // namespace

ExperimentGroup::ExperimentGroup(const Store& store,
                                 const std::vector<std::string>& words)
    : store_(store) {
  std::vector<ExperimentRow> rows;
  for (const std::int64_t id : ResolveExperiments(store, words)) {
    details_.push_back(FindExperimentDetail(store, id));
    const ExperimentDetail& detail = details_.back();
    rows.push_back(detail.row);
    counted_[id] = CountedUnit(store, id);
    has_repeats_ = has_repeats_ || ReadRepeats(detail.config).count > 1;
    const auto space = detail.config.find("hyperparameters");
    if (space != detail.config.end()) MergeSpace(*space, space_);
  }
  RequireOneMetric(rows);
}

const ExperimentDetail& ExperimentGroup::Find(TrialId trial) const {
  return *std::ranges::find(
      details_, trial.experiment,
      [](const ExperimentDetail& detail) { return detail.row.id; });
}

std::string ExperimentGroup::CountHeader(Format format) const {
  const Unit counted = counted_.at(first().row.id);
  const bool same = std::ranges::all_of(
      counted_, [&](const auto& one) { return one.second == counted; });
  return CountColumn(same ? counted : Unit::kBatches, format);
}

void ExperimentGroup::PrintUnits(const GlobalOptions& globals) const {
  std::vector<std::int64_t> ids;
  std::vector<Unit> units;
  for (const auto& [id, unit] : counted_) {
    ids.push_back(id);
    units.push_back(unit);
  }
  const std::string different = DifferentUnitsText(ids, units);
  if (!different.empty()) PrintNotice(globals, "note: " + different);
}

void ExperimentGroup::AddRepeatColumns(std::vector<Column>& columns) const {
  if (!has_repeats_) return;
  columns.insert(columns.begin() + 1, {{.name = "point", .right = true},
                                       {.name = "repeat", .right = true}});
}

void ExperimentGroup::AddRepeatCells(const TrialRow& row,
                                     std::vector<Cell>& cells) const {
  if (!has_repeats_) return;
  const auto text = [](std::int64_t number) {
    return number == 0 ? "" : std::to_string(number);
  };
  cells.insert(cells.begin() + 1, {text(row.point), text(row.repeat)});
}

nlohmann::json ExperimentGroup::Document() const {
  if (details_.size() == 1) return {{"experiment", first().row.id}};
  nlohmann::json ids = nlohmann::json::array();
  for (const ExperimentDetail& detail : details_) ids.push_back(detail.row.id);
  return {{"experiments", std::move(ids)}};
}

std::string ExperimentGroup::Text() const {
  std::vector<std::string> ids;
  for (const ExperimentDetail& detail : details_) {
    ids.push_back(std::to_string(detail.row.id));
  }
  return (ids.size() == 1 ? "experiment " : "experiments ") + Join(ids, ", ");
}

std::vector<TrialRow> ExperimentGroup::ListTrials(TrialParts parts) const {
  std::vector<TrialRow> all;
  for (const ExperimentDetail& detail : details_) {
    std::ranges::move(dtrain::ListTrials(store_, detail.row, parts),
                      std::back_inserter(all));
  }
  return all;
}

std::vector<TrialRow> ExperimentGroup::WithAllParts(
    const std::vector<TrialRow>& rows) const {
  std::map<TrialId, TrialRow> complete;
  for (const ExperimentDetail& detail : details_) {
    std::vector<TrialRow> own;
    std::ranges::copy_if(rows, std::back_inserter(own),
                         [&](const TrialRow& row) {
                           return row.id.experiment == detail.row.id;
                         });
    for (TrialRow& row : dtrain::WithAllParts(store_, detail.row, own)) {
      complete.emplace(row.id, std::move(row));
    }
  }
  std::vector<TrialRow> all;
  for (const TrialRow& row : rows) {
    const auto found = complete.find(row.id);
    if (found != complete.end()) all.push_back(std::move(found->second));
  }
  return all;
}

std::vector<Column> HparamColumns(const nlohmann::json& space) {
  std::vector<Column> columns;
  for (const SearchAxis& axis : SearchAxes(space, /*grid=*/false)) {
    if (axis.constant() || axis.is_part) continue;
    const bool is_number = std::ranges::all_of(
        axis.choices,
        [](const nlohmann::json& choice) { return choice.is_number(); });
    columns.push_back({.name = axis.name,
                       .right = is_number,
                       .elastic = !is_number,
                       .optional = true,
                       .verbatim = true});
  }
  const auto last_part = [](const Column& column) {
    return column.name.substr(column.name.rfind('.') + 1);
  };
  for (Column& column : columns) {
    const auto alike =
        std::ranges::count(columns, last_part(column), last_part);
    if (alike == 1) column.brief = last_part(column);
  }
  return columns;
}

Cell HparamCell(const nlohmann::json& hparams, const std::string& name) {
  const nlohmann::json* value = FindMember(hparams, name);
  if (value == nullptr) return "";
  return {FormatBriefly(*value), DumpJson(*value)};
}

void AddSelectionOptions(CLI::App& app, SelectionOptions& options,
                         const std::string& example,
                         const std::string& columns) {
  AddOption(app, "--filter", options.filter,
            "Only rows that match EXPR, e.g. '" + example + "'")
      .TypeName("EXPR")
      .Completes(ValueKind::kField);
  AddOption(app, "--columns", options.columns, columns)
      .TypeName("NAMES")
      .Completes(ValueKind::kField);
}

void AddTrialFilter(CLI::App& app, std::string& filter) {
  AddOption(app, "--filter", filter,
            "Only trials that match EXPR, e.g. 'hp.lr < 0.1'")
      .TypeName("EXPR")
      .Completes(ValueKind::kField);
}

void PrintNotes(const TrialSelection& selection, const GlobalOptions& globals) {
  for (const std::string& note : selection.notes()) {
    PrintNotice(globals, "note: " + note);
  }
}

bool DrawsUtf8(const TableOptions& options, const GlobalOptions& globals) {
  return options.format() != Format::kText ||
         GetTerminalMode(STDOUT_FILENO, globals.color).utf8;
}

namespace {

template <typename Fields>
RowNames NamesIn(Fields& fields) {
  return {.context =
              [&fields](const std::string& option) {
                return fields.Context(option);
              },
          .expand =
              [&fields](const std::string& pattern) {
                return fields.Expand(pattern);
              }};
}

}  // namespace

RowNames MakeRowNames(JointFields& fields) { return NamesIn(fields); }

RowNames MakeRowNames(ExperimentFields& fields) { return NamesIn(fields); }

Filter ParseFilter(const SelectionOptions& options, const RowNames& names) {
  if (options.filter.empty()) return {};
  return Filter::Parse(options.filter, names.context("--filter"));
}

namespace {

void AddKey(const SortKey& key, const ExperimentRow& experiment,
            std::vector<SortKey>& keys) {
  const FieldName best{.name = "best"};
  const bool plain = key.field.function == FieldFunction::kNone;
  const std::string& name = key.field.name;
  if (plain && (name == "best" || name == experiment.metric)) {
    keys.push_back(
        {.field = best,
         .descending = key.descending || !experiment.smaller_is_better});
  } else if (plain && name == "rung") {
    keys.push_back({.field = key.field, .descending = true});
    keys.push_back(
        {.field = best, .descending = !experiment.smaller_is_better});
  } else if (plain && name == "id") {
    // Sorted as text, 3.10 would come before 3.2.
    keys.push_back(
        {.field = FieldName{.name = "number"}, .descending = key.descending});
  } else {
    keys.push_back(key);
  }
}

void PrintOrderNote(const SortKey& key, const ExperimentRow& experiment,
                    JointFields& fields, const GlobalOptions& globals) {
  const bool known = !fields.IsMetric(key.field) || key.descending ||
                     key.field.Text() == experiment.metric;
  if (known) return;
  PrintNotice(globals,
              "note: sorted by " + key.field.Text() +
                  ", the smallest value first; --reverse shows the largest "
                  "first");
}

}  // namespace

std::vector<SortKey> ParseTrialKeys(const std::string& sort, bool reverse,
                                    const RowNames& names,
                                    const ExperimentRow& experiment,
                                    JointFields& fields,
                                    const GlobalOptions& globals) {
  std::vector<SortKey> keys;
  if (sort.empty()) return keys;
  for (const SortKey& key : ParseSortKeys(sort, names.context("--sort"))) {
    AddKey(key, experiment, keys);
    if (!reverse && keys.size() == 1) {
      PrintOrderNote(key, experiment, fields, globals);
    }
  }
  for (const SortKey& key : keys) (void)fields.Resolve(key.field);
  return keys;
}

std::vector<SelectedColumn> ParseColumns(const SelectionOptions& options,
                                         const RowNames& names) {
  if (options.columns.empty()) return {};
  const QueryContext context = names.context("--columns");
  std::vector<SelectedColumn> columns;
  for (FieldName& field :
       ParseColumns(options.columns, context, names.expand)) {
    const FieldKind kind = context.resolve(field).kind;
    columns.push_back({.field = std::move(field), .kind = kind});
  }
  return columns;
}

}  // namespace dtrain
