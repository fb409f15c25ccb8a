#include "cli/selection.h"

#include <algorithm>

#include <unistd.h>

#include "cli/command_line.h"
#include "engine/analysis/search_axes.h"
#include "engine/app/experiment_fields.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_selection.h"
#include "engine/base/json.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {

std::vector<Column> HparamColumns(const nlohmann::json& config) {
  std::vector<Column> columns;
  const auto space = config.find("hyperparameters");
  if (space == config.end()) return columns;
  for (const SearchAxis& axis : SearchAxes(*space, /*grid=*/false)) {
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
  if (value == nullptr) return {"-", ""};
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

RowNames MakeRowNames(TrialFields& fields) { return NamesIn(fields); }

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
                    TrialFields& fields, const GlobalOptions& globals) {
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
                                    TrialFields& fields,
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
