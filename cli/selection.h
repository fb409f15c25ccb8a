#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/output.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/query/field.h"
#include "engine/query/filter.h"
#include "engine/report/field_view.h"
#include "engine/store/rows.h"
#include "searchers/hparam_space.h"

namespace dtrain {

class ExperimentFields;
class JointFields;
class TrialSelection;

/// The experiments whose trials one table shows, all with one metric and better
/// direction.
class ExperimentGroup {
 public:
  /// `words` name the experiments; each is taken once. Throws as
  /// ResolveExperiments and RequireOneMetric. `store` must outlive this.
  ExperimentGroup(const Store& store, const std::vector<std::string>& words);

  const std::vector<ExperimentDetail>& all() const { return details_; }
  const ExperimentDetail& Find(TrialId trial) const;
  bool smaller_is_better() const { return first().row.smaller_is_better; }
  const std::string& metric() const { return first().row.metric; }
  /// The first one, which stands for all in what they have in common.
  const ExperimentDetail& first() const { return details_.front(); }
  /// The hyperparameters of all; of one name, the searched one.
  const nlohmann::json& space() const { return space_; }
  /// Unit of the trial's batches.
  Unit counted(TrialId trial) const { return counted_.at(trial.experiment); }
  /// CountColumn of all; `batches` if they count different units.
  std::string CountHeader(Format format) const;
  /// Notes that they count different units, if they do.
  void PrintUnits(const GlobalOptions& globals) const;
  /// True if one of them has searcher.repeats.
  bool has_repeats() const { return has_repeats_; }
  /// Insert the columns `point` and `repeat`, and a trial's cells, behind the
  /// first column if there are repeats.
  void AddRepeatColumns(std::vector<Column>& columns) const;
  void AddRepeatCells(const TrialRow& row, std::vector<Cell>& cells) const;
  /// {"experiment": 3}, or {"experiments": [3, 5]} of several.
  nlohmann::json Document() const;
  /// "experiment 3", or "experiments 3, 5".
  std::string Text() const;

  /// Returns the trials of all, of one experiment after the other.
  std::vector<TrialRow> ListTrials(TrialParts parts) const;
  /// Reads the rows of these trials again, with all parts.
  std::vector<TrialRow> WithAllParts(const std::vector<TrialRow>& rows) const;

 private:
  const Store& store_;
  std::vector<ExperimentDetail> details_;
  nlohmann::json space_ = nlohmann::json::object();
  std::map<std::int64_t, Unit> counted_;
  bool has_repeats_ = false;  // one of them has
};

/// `--filter` and `--columns`.
struct SelectionOptions : TableOptions {
  std::string filter;
  std::string columns;
};

/// Adds --filter, whose help shows `example`, and --columns with this help.
void AddSelectionOptions(
    CLI::App& app, SelectionOptions& options, const std::string& example,
    const std::string& columns =
        "Show these columns, hyperparameters (hp.*) and metrics");

/// Adds --filter of a command that shows whole experiments.
void AddTrialFilter(CLI::App& app, std::string& filter);

/// Prints the notes of `selection` about --filter.
void PrintNotes(const TrialSelection& selection, const GlobalOptions& globals);

/// True if spark() draws with block characters: in JSON and CSV, and on a
/// terminal with UTF-8.
bool DrawsUtf8(const TableOptions& options, const GlobalOptions& globals);

/// The names of the rows that --filter, --sort and --columns may use.
struct RowNames {
  std::function<QueryContext(const std::string& option)> context;
  // The fields that a pattern such as hp.* stands for.
  std::function<std::vector<FieldName>(const std::string& pattern)> expand;
};

/// The names of experiments' trials, or of experiments. `fields` must outlive
/// the result.
RowNames MakeRowNames(JointFields& fields);
RowNames MakeRowNames(ExperimentFields& fields);

/// Returns the condition of --filter; without one it is true for every row.
Filter ParseFilter(const SelectionOptions& options, const RowNames& names);

/// Returns the keys of --sort for trials, with the parts of rows that they need
/// resolved. Without a minus sign `best` and the searcher's metric put the best
/// trial first, and `rung` the highest, then the best one. A note says which
/// end of another metric comes first: whether that is the better one is
/// unknown.
std::vector<SortKey> ParseTrialKeys(const std::string& sort, bool reverse,
                                    const RowNames& names,
                                    const ExperimentRow& experiment,
                                    JointFields& fields,
                                    const GlobalOptions& globals);

/// A column that --columns names.
struct SelectedColumn {
  FieldName field;
  FieldKind kind = FieldKind::kAny;
};

/// Returns the columns of --columns; none without it.
std::vector<SelectedColumn> ParseColumns(const SelectionOptions& options,
                                         const RowNames& names);

/// Replaces the columns of a listing by those of --columns, if there are any.
/// JSON keeps its fields and gets them as `columns` of each row. `value_of`
/// returns the value of a field in a row. On a terminal, times are local.
template <typename Row, typename ValueOf>
void SelectColumns(const std::vector<SelectedColumn>& selected,
                   const ValueOf& value_of, Timestamp now,
                   Listing<Row>& listing) {
  if (selected.empty()) return;
  listing.columns.clear();
  for (const SelectedColumn& column : selected) {
    listing.columns.push_back(FieldColumn(column.field, column.kind));
  }
  const bool local = StdoutIsTerminal();
  listing.cells = [selected, value_of, local, now](const Row& row) {
    std::vector<Cell> cells;
    for (const SelectedColumn& column : selected) {
      cells.push_back(
          FieldCell(value_of(row, column.field), column.kind, local, now));
    }
    return cells;
  };
  listing.json = [selected, value_of,
                  whole = std::move(listing.json)](const Row& row) {
    nlohmann::json json = whole(row);
    nlohmann::json& columns = json["columns"] = nlohmann::json::object();
    for (const SelectedColumn& column : selected) {
      columns[column.field.Text()] = FieldJson(value_of(row, column.field));
    }
    return json;
  };
}

/// Sorts rows by keys, the first one first, rows without a value last;
/// `reverse`: each key the other way round.
template <typename Row, typename ValueOf>
void SortRows(const std::vector<SortKey>& keys, bool reverse,
              const ValueOf& value_of, std::vector<Row>& rows) {
  struct Sorted {
    std::vector<FieldValue> values;  // of each key
    Row row;
  };
  std::vector<Sorted> sorted;
  sorted.reserve(rows.size());
  for (Row& row : rows) {
    Sorted one;
    for (const SortKey& key : keys) {
      one.values.push_back(value_of(row, key.field));
    }
    one.row = std::move(row);
    sorted.push_back(std::move(one));
  }
  std::ranges::stable_sort(sorted, [&](const Sorted& a, const Sorted& b) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool descending = keys[i].descending != reverse;
      if (ComesBefore(a.values[i], b.values[i], descending)) return true;
      if (ComesBefore(b.values[i], a.values[i], descending)) return false;
    }
    return false;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = std::move(sorted[i].row);
  }
}

/// Adds a column hp.NAME for each hyperparameter of a row, after the others:
/// for CSV, where `hparams` has all in one field. `space`: of the search.
template <typename Row, typename HparamsOf>
void AddHparamColumns(const std::vector<Row>& rows, const nlohmann::json& space,
                      const HparamsOf& hparams_of, Listing<Row>& listing) {
  const auto values_of = [hparams_of,
                          wholes = NamesWithParts(space)](const Row& row) {
    return HparamValues(hparams_of(row), wholes);
  };
  std::set<std::string> names;
  for (const Row& row : rows) {
    for (const auto& [name, value] : values_of(row)) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    listing.columns.push_back({.name = "hp." + name});
  }
  listing.cells = [names, values_of,
                   first = std::move(listing.cells)](const Row& row) {
    std::vector<Cell> cells = first(row);
    const auto flat = values_of(row);
    for (const std::string& name : names) {
      const auto found = flat.find(name);
      const std::string value = found == flat.end() ? ""
                                : found->second.is_string()
                                    ? found->second.template get<std::string>()
                                    : found->second.dump();
      cells.emplace_back(value);
    }
    return cells;
  };
}

/// Adds the columns length and unit, after the others: for CSV, where `batches`
/// has this name whatever it counts. `count_of` returns it, `unit_of` its unit
/// or nothing.
template <typename Row, typename CountOf, typename UnitOf>
void AddLengthColumns(const CountOf& count_of, const UnitOf& unit_of,
                      Listing<Row>& listing) {
  listing.columns.push_back({.name = "length"});
  listing.columns.push_back({.name = "unit"});
  listing.cells = [unit_of, count_of,
                   first = std::move(listing.cells)](const Row& row) {
    std::vector<Cell> cells = first(row);
    cells.emplace_back(std::to_string(count_of(row)));
    const std::optional<Unit> unit = unit_of(row);
    cells.emplace_back(std::string(unit ? UnitName(*unit) : ""));
    return cells;
  };
}

/// The columns of the hyperparameters that a search of `space` varies.
std::vector<Column> HparamColumns(const nlohmann::json& space);

/// The cell of a hyperparameter for people.
Cell HparamCell(const nlohmann::json& hparams, const std::string& name);

/// Replaces the column `hparams` by one for each of `hparams`, the columns of
/// HparamColumns; keeps it if there are none.
template <typename Row, typename HparamsOf>
void SplitHparams(const std::vector<Column>& hparams,
                  const HparamsOf& hparams_of, Listing<Row>& listing) {
  const auto place =
      std::ranges::find(listing.columns, "hparams", &Column::name);
  if (hparams.empty() || place == listing.columns.end()) return;
  const auto at = place - listing.columns.begin();
  listing.columns.erase(place);
  listing.columns.insert(listing.columns.begin() + at, hparams.begin(),
                         hparams.end());
  listing.cells = [hparams, hparams_of, at,
                   whole = std::move(listing.cells)](const Row& row) {
    std::vector<Cell> cells = whole(row);
    std::vector<Cell> values;
    for (const Column& column : hparams) {
      values.push_back(HparamCell(hparams_of(row), column.name));
    }
    cells.erase(cells.begin() + at);
    cells.insert(cells.begin() + at, values.begin(), values.end());
    return cells;
  };
}

}  // namespace dtrain
