// The values of experiments that `list --filter`, `--sort` and `--columns`
// name.
//
// A name is looked for among the columns of the experiment first, and otherwise
// among the fields of its best trial (hyperparameters, metrics), which
// TrialFields knows. Columns of the row cost nothing. A note needs the
// experiment's details, a size a walk through its directory, and a field of the
// best trial a TrialFields of that trial alone; each is made when it is first
// needed, and kept.
//
// A name is valid if one of the listed experiments knows it. For the others it
// has no value, which is why GetValue asks again and takes kNotFound for an
// answer.

#include "engine/app/experiment_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/app/trial_fields.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

// A column of an experiment that its row has.
struct ExperimentColumn {
  std::string_view name;
  FieldKind kind;
  FieldValue (*value)(const ExperimentRow& row, Timestamp now);
};

FieldValue MaybeText(const std::string& text) {
  if (text.empty()) return std::monostate();
  return text;
}

FieldValue MaybeTime(const std::optional<Timestamp>& time) {
  if (!time) return std::monostate();
  return *time;
}

FieldValue Whole(std::int64_t number) { return number; }

// Columns that the first version could filter by are of kind kAny: comparisons
// such as name==5 keep their meaning.
constexpr std::array kExperimentColumns = {
    ExperimentColumn{
        "id", FieldKind::kAny,
        [](const ExperimentRow& row, Timestamp) { return Whole(row.id); }},
    ExperimentColumn{"name", FieldKind::kAny,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return row.name;
                     }},
    ExperimentColumn{"state", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return std::string(StateName(row.state));
                     }},
    ExperimentColumn{"progress", FieldKind::kShare,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return row.progress;
                     }},
    ExperimentColumn{"searcher", FieldKind::kAny,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return row.searcher;
                     }},
    ExperimentColumn{
        "trials", FieldKind::kAny,
        [](const ExperimentRow& row, Timestamp) { return Whole(row.trials); }},
    ExperimentColumn{"best", FieldKind::kAny,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       if (!row.best) return std::monostate();
                       return row.best->value;
                     }},
    ExperimentColumn{"started", FieldKind::kTime,
                     [](const ExperimentRow& row, Timestamp) {
                       return MaybeTime(row.started);
                     }},
    ExperimentColumn{"duration", FieldKind::kDuration,
                     [](const ExperimentRow& row, Timestamp now) -> FieldValue {
                       return ElapsedSeconds(row, now);
                     }},
    ExperimentColumn{"label", FieldKind::kTexts,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return row.labels;
                     }},
    ExperimentColumn{"description", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) {
                       return MaybeText(row.description);
                     }},
    ExperimentColumn{"metric", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) {
                       return MaybeText(row.metric);
                     }},
    ExperimentColumn{"best_trial", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       if (row.best_trial == 0) return std::monostate();
                       return ToString(TrialId{row.id, row.best_trial});
                     }},
    ExperimentColumn{"error", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) {
                       return MaybeText(row.error);
                     }},
    ExperimentColumn{"archived", FieldKind::kText,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return std::string(row.archived ? "true" : "false");
                     }},
    ExperimentColumn{
        "seed", FieldKind::kNumber,
        [](const ExperimentRow& row, Timestamp) { return Whole(row.seed); }},
    ExperimentColumn{"created", FieldKind::kTime,
                     [](const ExperimentRow& row, Timestamp) -> FieldValue {
                       return row.created;
                     }},
    ExperimentColumn{"ended", FieldKind::kTime,
                     [](const ExperimentRow& row, Timestamp) {
                       return MaybeTime(row.ended);
                     }}};

// Columns that are read from elsewhere.
constexpr std::string_view kNote = "note";
constexpr std::string_view kSize = "size";

std::optional<FieldKind> KindOfColumn(const std::string& name) {
  if (name == kNote) return FieldKind::kText;
  if (name == kSize) return FieldKind::kBytes;
  const auto found =
      std::ranges::find(kExperimentColumns, name, &ExperimentColumn::name);
  if (found == kExperimentColumns.end()) return std::nullopt;
  return found->kind;
}

// The only texts that a column can have; empty: any.
std::vector<std::string> ColumnWords(const std::string& column) {
  if (column == "state") return StateNames();
  if (column == "archived") return {"true", "false"};
  return {};
}

[[noreturn]] void FailField(const std::string& name) {
  std::vector<std::string> names;
  for (const ExperimentColumn& column : kExperimentColumns) {
    names.emplace_back(column.name);
  }
  names.emplace_back(kNote);
  names.emplace_back(kSize);
  throw Error(ErrorKind::kUsage,
              "unknown field '" + name + "'" + DidYouMean(name, names) +
                  "; available: " + Join(names, ", ") +
                  ", and hp.NAME and the metrics of the best trials");
}

}  // namespace

struct ExperimentFields::BestTrial {
  std::optional<TrialRow> row;
  std::unique_ptr<TrialFields> fields;
};

std::int64_t BytesOnDisk(const Store& store, std::int64_t experiment) {
  std::int64_t bytes = TreeBytes(store.layout().Experiment(experiment));
  for (const CheckpointRow& row : store.Checkpoints(experiment)) {
    if (!row.storage.empty()) bytes += row.bytes;
  }
  return bytes;
}

ExperimentFields::ExperimentFields(const Store& store,
                                   const std::vector<ExperimentRow>& rows,
                                   Timestamp now, bool utf8)
    : store_(store), rows_(rows), now_(now), utf8_(utf8) {}

ExperimentFields::~ExperimentFields() = default;

QueryContext ExperimentFields::Context(const std::string& option) {
  return {.option = option,
          .resolve = [this](const FieldName& field) { return Resolve(field); },
          .now = now_};
}

const ExperimentDetail& ExperimentFields::GetDetail(const ExperimentRow& row) {
  auto& detail = details_[row.id];
  if (!detail) {
    auto found = store_.Experiment(row.id);
    detail = std::make_unique<ExperimentDetail>(
        found ? *std::move(found) : ExperimentDetail{.row = row});
  }
  return *detail;
}

ExperimentFields::BestTrial& ExperimentFields::GetBestTrial(
    const ExperimentRow& row) {
  auto& best = best_[row.id];
  if (best) return *best;
  best = std::make_unique<BestTrial>();
  if (row.best_trial == 0) return *best;
  best->row = store_.Trial({row.id, row.best_trial});
  if (!best->row) return *best;
  best->fields = std::make_unique<TrialFields>(store_, GetDetail(row), now_,
                                               utf8_, row.best_trial);
  return *best;
}

ResolvedField ExperimentFields::Resolve(const FieldName& field) {
  if (field.function == FieldFunction::kNone) {
    if (const auto kind = KindOfColumn(field.name)) {
      return {.kind = *kind, .words = ColumnWords(field.name)};
    }
  }
  for (const ExperimentRow& row : rows_) {
    BestTrial& best = GetBestTrial(row);
    if (!best.fields) continue;
    try {
      return best.fields->Resolve(field);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
    }
  }
  FailField(field.Text());
}

std::vector<FieldName> ExperimentFields::Expand(const std::string& pattern) {
  if (pattern != "hp.*") FailField(pattern);
  std::vector<FieldName> fields;
  for (const ExperimentRow& row : rows_) {
    BestTrial& best = GetBestTrial(row);
    if (!best.fields) continue;
    for (FieldName& field : best.fields->Expand(pattern)) {
      if (std::ranges::count(fields, field) == 0) {
        fields.push_back(std::move(field));
      }
    }
  }
  return fields;
}

FieldValue ExperimentFields::GetValue(const ExperimentRow& row,
                                      const FieldName& field) {
  if (field.function == FieldFunction::kNone) {
    if (field.name == kNote) return MaybeText(GetDetail(row).note);
    if (field.name == kSize) return Whole(BytesOnDisk(store_, row.id));
    const auto column = std::ranges::find(kExperimentColumns, field.name,
                                          &ExperimentColumn::name);
    if (column != kExperimentColumns.end()) return column->value(row, now_);
  }
  BestTrial& best = GetBestTrial(row);
  if (!best.fields) return std::monostate();
  try {
    // A name may be known to other experiments only.
    (void)best.fields->Resolve(field);
    return best.fields->GetValue(*best.row, field);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return std::monostate();
  }
}

}  // namespace dtrain
