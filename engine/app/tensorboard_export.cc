#include "engine/app/tensorboard_export.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/analysis/search_axes.h"
#include "engine/app/stores.h"
#include "engine/app/trial_selection.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/base/tfevents.h"
#include "engine/os/files.h"
#include "engine/store/store.h"
#include "searchers/hparam_space.h"

// TensorBoard reads the files of a directory in the order of their names, and
// each only once, so a file only grows: what a later export adds is appended.
// The record of the export has the length of each file. A file that is longer
// was being written when an export was killed, and is cut to that length; one
// that is shorter lost data in a power cut, and is written again.

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kState[] = "dtrain-export.json";
constexpr char kLock[] = "dtrain-export.lock";
constexpr char kFilePrefix[] = "events.out.tfevents.dtrain.";
// With more trials to look at, one query reads the metrics of all.
constexpr std::size_t kMaxSingleTrials = 16;

double Seconds(Timestamp time) {
  return static_cast<double>(time.count()) / 1e6;
}

// Files sort by their numbers.
std::string FileName(std::int64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 6 - std::min<std::size_t>(digits.size(), 6), '0');
  return kFilePrefix + digits;
}

SessionStatus ToSessionStatus(State state) {
  if (state == State::kError) return SessionStatus::kFailure;
  return state == State::kCanceled || state == State::kInvalid
             ? SessionStatus::kUnknown
             : SessionStatus::kSuccess;
}

std::string EventTag(const MetricRow& row) {
  return (row.kind == MetricKind::kTraining ? "training/" : "validation/") +
         row.name;
}

// Removes the files of earlier exports from a directory.
void RemoveFiles(const fs::path& directory) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with(kFilePrefix)) {
      old.push_back(entry.path());
    }
  }
  for (const fs::path& file : old) fs::remove(file);
}

// Returns false if the directory was there.
bool MakeDirectory(const fs::path& directory) {
  std::error_code error;
  const bool is_new = fs::create_directories(directory, error);
  if (error) CannotWrite(directory, error.value());
  return is_new;
}

// Reads the record of earlier exports; an empty one for a new directory.
json ReadState(const fs::path& directory) {
  const fs::path file = directory / kState;
  if (const auto text = ReadFile(file)) {
    json state = json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (state.is_object() && state.value("version", json()) == 1) return state;
    throw Error(ErrorKind::kUsage,
                file.string() +
                    " is not a record of this version's exports; "
                    "give --out another directory, or remove this");
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename() == kLock) continue;
    throw Error(ErrorKind::kUsage,
                directory.string() +
                    " has files that no export wrote; give --out a new or "
                    "empty directory");
  }
  return {{"version", 1},
          {"experiments", json::object()},
          {"trials", json::object()},
          {"columns", json::object()},
          {"metrics", json::array()}};
}

std::optional<std::int64_t> FileSize(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) return std::nullopt;
  return static_cast<std::int64_t>(size);
}

}  // namespace

// A trial's file and what is to be appended to it.
struct TensorboardExport::TrialFile {
  TrialRow row;
  bool is_new = true;
  std::int64_t bytes = 0;  // that the file has
  std::map<MetricKind, std::int64_t> after = {{MetricKind::kTraining, -1},
                                              {MetricKind::kValidation, -1}};
  std::map<MetricKind, std::int64_t> reached = after;
  std::string added = {};
  std::int64_t values = 0;
  bool is_written = false;

  std::string name() const { return ToString(row.id); }
  void Add(const MetricRow& metric, const std::string& tag) {
    if (metric.batches <= after[metric.kind]) return;
    AppendScalar(added, tag, metric.batches, Seconds(metric.time),
                 metric.value);
    reached[metric.kind] = metric.batches;
    ++values;
  }
};

TensorboardExport::TensorboardExport(fs::path directory)
    : directory_(std::move(directory)) {
  MakeDirectory(directory_);
  lock_ = FileLock::Open(directory_ / kLock, 0644);
  if (!lock_) CannotWrite(directory_ / kLock, errno);
  if (!lock_.TryLock()) {
    throw Error(ErrorKind::kStore, "another export is writing to " +
                                       directory_.string() +
                                       "; wait for it, or end it");
  }
  state_ = ReadState(directory_);
}

bool TensorboardExport::IsDone(const TrialRow& row) const {
  const json& trials = state_["trials"];
  const auto recorded = trials.find(ToString(row.id));
  return recorded != trials.end() && recorded->at("ended") == true &&
         recorded->at("runs") == row.runs && IsFinal(row.state);
}

// `with_parts`: as NamesWithParts returns them.
TensorboardExport::TrialFile TensorboardExport::Open(
    const TrialRow& row, const std::vector<std::string>& with_parts) const {
  TrialFile file{.row = row};
  const json& trials = state_["trials"];
  const auto recorded = trials.find(file.name());
  if (recorded != trials.end() && recorded->at("runs") == row.runs) {
    const auto size = FileSize(directory_ / file.name() / FileName(row.runs));
    file.bytes = recorded->at("bytes").get<std::int64_t>();
    file.is_new = !size || *size < file.bytes;
  }
  if (!file.is_new) {
    file.after[MetricKind::kTraining] = recorded->at("training");
    file.after[MetricKind::kValidation] = recorded->at("validation");
    file.reached = file.after;
    return file;
  }
  const double time = Seconds(row.started.value_or(row.created));
  file.bytes = 0;
  AppendFileVersion(file.added, time);
  if (recorded != trials.end()) AppendRestart(file.added, time, /*step=*/0);
  AppendTrialStart(file.added, time, HparamValues(row.hparams, with_parts));
  return file;
}

// Appends what a trial's file lacks.
void TensorboardExport::Write(TrialFile& file) {
  const TrialRow& row = file.row;
  json& recorded = state_["trials"][file.name()];
  const bool ends =
      IsFinal(row.state) && (file.is_new || recorded.at("ended") != true);
  if (ends) {
    AppendTrialEnd(file.added, Seconds(row.ended.value_or(row.created)),
                   ToSessionStatus(row.state));
  }
  const fs::path directory = directory_ / file.name();
  const fs::path path = directory / FileName(row.runs);
  if (file.is_new && !MakeDirectory(directory)) RemoveFiles(directory);
  if (!file.added.empty()) {
    const UniqueFd fd(::open(
        path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd || ::ftruncate(fd.get(), file.bytes) != 0 ||
        ::lseek(fd.get(), file.bytes, SEEK_SET) < 0) {
      CannotWrite(path, errno);
    }
    WriteBytes(fd.get(), std::as_bytes(std::span(file.added)), path);
  }
  recorded = {
      {"runs", row.runs},
      {"bytes", file.bytes + static_cast<std::int64_t>(file.added.size())},
      {"training", file.reached[MetricKind::kTraining]},
      {"validation", file.reached[MetricKind::kValidation]},
      {"ended", IsFinal(row.state)}};
  file.added = {};
  file.is_written = true;
}

// Adds the experiment's hyperparameters to the columns. Ranges of one name are
// joined.
void TensorboardExport::AddColumns(const ExperimentDetail& detail) {
  const json space = detail.config.value("hyperparameters", json::object());
  for (const SearchAxis& axis : SearchAxes(space, /*grid=*/false)) {
    json column = axis.choices.empty()
                      ? json{{"low", axis.low}, {"high", axis.high}}
                      : json{{"choices", axis.choices}};
    json& recorded = state_["columns"][axis.name];
    if (recorded.contains("low") && column.contains("low")) {
      column["low"] = std::min(axis.low, recorded["low"].get<double>());
      column["high"] = std::max(axis.high, recorded["high"].get<double>());
    } else if (!recorded.is_null() && recorded != column) {
      column = json::object();
    }
    recorded = std::move(column);
  }
}

void TensorboardExport::WriteTable(double time) {
  json table = {{"columns", state_["columns"]}, {"metrics", state_["metrics"]}};
  if (table == state_["table"]) return;
  std::vector<HparamColumn> columns;
  for (const auto& [name, column] : table["columns"].items()) {
    columns.push_back({.name = name});
    if (column.contains("low")) {
      columns.back().range = {column["low"].get<double>(),
                              column["high"].get<double>()};
    } else if (column.contains("choices")) {
      columns.back().choices = column["choices"].get<std::vector<json>>();
    }
  }
  std::string text;
  AppendFileVersion(text, time);
  AppendHparamTable(text, time, "dtrain", columns,
                    table["metrics"].get<std::vector<std::string>>());
  const std::int64_t number = state_.value("tables", std::int64_t{0}) + 1;
  RemoveFiles(directory_);
  WriteFileDurably(directory_ / FileName(number), text, 0644);
  state_["tables"] = number;
  state_["table"] = std::move(table);
}

void TensorboardExport::Save() {
  std::string text = state_.dump() + "\n";
  if (text == saved_) return;  // --follow comes here every second
  WriteFileDurably(directory_ / kState, text, 0644);
  saved_ = std::move(text);
}

void TensorboardExport::RequireSameExperiment(const ExperimentRow& row) {
  json& recorded = state_["experiments"][std::to_string(row.id)];
  if (!recorded.is_null() && recorded.at("created") != row.created.count()) {
    throw Error(ErrorKind::kUsage,
                directory_.string() + " has an experiment " +
                    std::to_string(row.id) +
                    " of another store; give --out another directory");
  }
  recorded = {{"created", row.created.count()}};
}

// Reads the metrics of these trials and writes their files, one after the
// other.
void TensorboardExport::WriteAll(const Store& store, std::int64_t experiment,
                                 std::map<std::int64_t, TrialFile>& files) {
  json& metrics = state_["metrics"];
  std::set<std::string> recorded(metrics.begin(), metrics.end());
  TrialFile* current = nullptr;
  const auto add = [&](const MetricRow& row) {
    if (current == nullptr || current->row.id.number != row.trial.number) {
      if (current != nullptr) Write(*current);
      const auto found = files.find(row.trial.number);
      current = found == files.end() ? nullptr : &found->second;
    }
    if (current == nullptr) return;
    const std::string tag = EventTag(row);
    current->Add(row, tag);
    if (row.kind == MetricKind::kValidation && recorded.insert(tag).second) {
      metrics.push_back(tag);
    }
  };
  if (files.size() > kMaxSingleTrials) {
    store.ForEachMetric({.experiment = experiment}, add);
  } else {
    for (const auto& [number, file] : files) {
      store.ForEachMetric(
          {.experiment = experiment,
           .trial = number,
           .after = std::ranges::min(file.after | std::views::values)},
          add);
    }
  }
  if (current != nullptr) Write(*current);
  for (auto& [number, file] : files) {
    if (!file.is_written) Write(file);
  }
}

ExportedCounts TensorboardExport::Update(const Store& store,
                                         std::int64_t experiment,
                                         const TrialSelection& selection) {
  const ExperimentDetail detail = FindExperimentDetail(store, experiment);
  RequireSameExperiment(detail.row);
  AddColumns(detail);
  std::vector<TrialRow> rows = ListTrials(store, detail.row);
  selection.Keep(rows);
  const auto with_parts =
      NamesWithParts(detail.config.value("hyperparameters", json::object()));
  std::map<std::int64_t, TrialFile> files;
  for (const TrialRow& row : rows) {
    if (!IsDone(row)) files.emplace(row.id.number, Open(row, with_parts));
  }
  WriteAll(store, experiment, files);
  WriteTable(Seconds(detail.row.created));
  Save();
  ExportedCounts counts;
  for (const auto& [number, file] : files) {
    counts.values += file.values;
    if (file.is_new || file.values > 0) ++counts.trials;
  }
  return counts;
}

}  // namespace dtrain
