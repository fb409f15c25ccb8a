// `dtrain tensorboard`: experiments as event files.
//
// TensorBoard reads the files of a directory in the order of their names, and
// each only once, so a file only grows: what a later export adds is appended.
// The record of the export has the length of each file. A file that is longer
// was being written when an export was killed, and is cut to that length; one
// that is shorter lost data in a power cut, and is written again.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/analysis/search_axes.h"
#include "engine/app/followed_run.h"
#include "engine/app/stores.h"
#include "engine/app/trial_selection.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/base/tfevents.h"
#include "engine/os/file_lock.h"
#include "engine/os/files.h"
#include "engine/report/format.h"
#include "engine/report/system_view.h"
#include "engine/store/rows.h"
#include "engine/store/store.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Number of trials and values that an export wrote.
struct ExportedCounts {
  std::int64_t trials = 0;
  std::int64_t values = 0;
};

// A directory with experiments as TensorBoard's event files: one subdirectory
// for each trial, 3.7, and a file with the columns of the table HPARAMS. Its
// file dtrain-export.json records how far each trial was exported, so that
// another export adds only what is new. A trial that was resumed is written
// again, since values after its checkpoint no longer count.
class TensorboardExport {
 public:
  // Creates the directory, or opens that of an earlier export. Throws
  // Error(kUsage) for a directory with other files, Error(kStore) if another
  // export is writing to it, Error(kDiskFull).
  explicit TensorboardExport(std::filesystem::path directory);

  // Adds the new values of an experiment's selected trials. Throws
  // Error(kNotFound) if it no longer exists, Error(kUsage) if the directory
  // has an experiment of this number from another store, Error(kDiskFull).
  ExportedCounts Update(const Store& store, std::int64_t experiment,
                        const TrialSelection& selection);

 private:
  struct TrialFile;

  bool IsDone(const TrialRow& row) const;
  TrialFile Open(const TrialRow& row,
                 const std::vector<std::string>& with_parts) const;
  void RequireSameExperiment(const ExperimentRow& row);
  void Write(TrialFile& file);
  void WriteAll(const Store& store, std::int64_t experiment,
                std::map<std::int64_t, TrialFile>& files);
  void WriteSystem(const Store& store, const TrialRow& row);
  void WriteTable(double time);
  void AddColumns(const ExperimentDetail& detail);
  void Save();

  const std::filesystem::path directory_;
  FileLock lock_;
  // {"version", "experiments": {"3": {"created"}}, "trials": {"3.7": {"runs",
  // "bytes", "training", "validation", "ended"}}, "system": {"3.7": {"time",
  // "bytes"}}, "columns", "metrics"}.
  nlohmann::json state_;
  std::string saved_;  // the record as it was last written
};

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
bool MakeExportDirectory(const fs::path& directory) {
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
  MakeExportDirectory(directory_);
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

// Replaces what follows the first `bytes` of the file, which may be missing.
void WriteBehind(const fs::path& path, std::int64_t bytes,
                 const std::string& text) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd || ::ftruncate(fd.get(), bytes) != 0 ||
      ::lseek(fd.get(), bytes, SEEK_SET) < 0) {
    CannotWrite(path, errno);
  }
  WriteBytes(fd.get(), std::as_bytes(std::span(text)), path);
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
  if (file.is_new && !MakeExportDirectory(directory)) RemoveFiles(directory);
  if (!file.added.empty()) WriteBehind(path, file.bytes, file.added);
  recorded = {
      {"runs", row.runs},
      {"bytes", file.bytes + static_cast<std::int64_t>(file.added.size())},
      {"training", file.reached[MetricKind::kTraining]},
      {"validation", file.reached[MetricKind::kValidation]},
      {"ended", IsFinal(row.state)}};
  file.added = {};
  file.is_written = true;
}

// Appends the samples of what the trial used to a run of its own, whose steps
// are seconds since the trial's start.
void TensorboardExport::WriteSystem(const Store& store, const TrialRow& row) {
  const std::vector<SystemRow> samples = store.SystemSamples(row.id);
  if (samples.empty()) return;
  const std::string name = ToString(row.id);
  const fs::path directory = directory_ / name / "system";
  const fs::path path = directory / FileName(1);
  json& recorded = state_["system"][name];
  const auto size = FileSize(path);
  if (recorded.is_null() || !size ||
      *size < recorded.at("bytes").get<std::int64_t>()) {
    recorded = {{"time", -1}, {"bytes", 0}};
  }
  const auto bytes = recorded.at("bytes").get<std::int64_t>();
  const Timestamp after(recorded.at("time").get<std::int64_t>());
  const Timestamp start = row.started.value_or(row.created);
  Timestamp last = after;
  std::string text;
  if (bytes == 0) AppendFileVersion(text, Seconds(start));
  for (const SystemRow& sampled : samples) {
    if (sampled.time <= after) continue;
    last = std::max(last, sampled.time);
    const auto step = static_cast<std::int64_t>(Seconds(sampled.time - start));
    const auto add = [&](const std::string& tag, const json& value) {
      if (!value.is_number()) return;
      AppendScalar(text, tag, step, Seconds(sampled.time), value.get<double>());
    };
    const json values = SystemRowJson(row.id, sampled);
    const std::string prefix =
        sampled.rank == 0 ? "system/"
                          : "system/rank" + std::to_string(sampled.rank) + "/";
    for (const char* field : {"cores", "processes", "memory_bytes", "pss_bytes",
                              "read_bytes", "written_bytes"}) {
      add(prefix + field, values.at(field));
    }
    for (const json& gpu : values.at("gpus")) {
      for (const char* field :
           {"percent", "memory_bytes", "watts", "celsius"}) {
        add(prefix + "gpu" + gpu.at("gpu").dump() + "/" + field, gpu.at(field));
      }
    }
  }
  if (last == after) return;
  MakeExportDirectory(directory);
  WriteBehind(path, bytes, text);
  recorded = {{"time", last.count()},
              {"bytes", bytes + static_cast<std::int64_t>(text.size())}};
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
  for (const auto& [number, file] : files) WriteSystem(store, file.row);
  WriteTable(Seconds(detail.row.created));
  Save();
  ExportedCounts counts;
  for (const auto& [number, file] : files) {
    counts.values += file.values;
    if (file.is_new || file.values > 0) ++counts.trials;
  }
  return counts;
}

constexpr Duration kPoll = std::chrono::seconds(1);

struct TensorboardOptions {
  std::vector<std::string> experiments;
  std::string out = "tensorboard";
  std::string filter;
  bool follow = false;
};

ExportedCounts Export(const Store& store, const std::vector<std::int64_t>& ids,
                      const TensorboardOptions& options,
                      TensorboardExport& directory, bool notes,
                      const GlobalOptions& globals) {
  std::vector<Target> targets;
  for (const std::int64_t id : ids) targets.push_back({.experiment = id});
  const TrialSelection selection(store, targets, options.filter,
                                 Clock::System().now());
  if (notes) PrintNotes(selection, globals);
  ExportedCounts counts;
  for (const std::int64_t id : ids) {
    const ExportedCounts one = directory.Update(store, id, selection);
    counts.trials += one.trials;
    counts.values += one.values;
  }
  return counts;
}

// Exports until the experiments are over.
void Follow(const Store& store, const std::vector<std::int64_t>& ids,
            const TensorboardOptions& options, TensorboardExport& directory,
            const GlobalOptions& globals) {
  const Clock clock = Clock::System();
  FollowedRuns runs(store, ids);
  while (true) {
    // Asked first, so that the last export has everything.
    runs.Poll(clock.monotonic());
    const bool are_over = runs.AllSettled();
    const ExportedCounts counts =
        Export(store, ids, options, directory, /*notes=*/false, globals);
    if (counts.values > 0 && globals.verbose) {
      PrintNotice(globals,
                  "added " + std::to_string(counts.values) + " values");
    }
    if (are_over) return;
    std::this_thread::sleep_for(kPoll);
  }
}

// Returns the experiments' ids. Explains the verbs of Determined's
// `tensorboard`, unless an experiment has that name.
std::vector<std::int64_t> FindExperiments(const Store& store,
                                          const TensorboardOptions& options) {
  static constexpr auto kVerbs = std::to_array<std::string_view>(
      {"config", "describe", "help", "kill", "list", "logs", "ls", "open",
       "set", "start"});
  try {
    return ResolveExperiments(store, options.experiments);
  } catch (const Error&) {
    const std::string& verb = options.experiments.front();
    if (std::ranges::find(kVerbs, verb) == kVerbs.end()) throw;
    throw Error(ErrorKind::kUsage,
                "tensorboard " + verb +
                    ": dtrain starts no TensorBoard; 'dtrain tensorboard EXP' "
                    "writes event files, look at them with: tensorboard "
                    "--logdir " +
                    options.out);
  }
}

int Tensorboard(const TensorboardOptions& options,
                const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const auto ids = FindExperiments(store, options);
  TensorboardExport directory(options.out);
  const ExportedCounts counts =
      Export(store, ids, options, directory, /*notes=*/true, globals);
  PrintNotice(
      globals,
      "wrote " + CountText(static_cast<std::size_t>(counts.values), "value") +
          " of " + CountText(static_cast<std::size_t>(counts.trials), "trial") +
          " to " + options.out + "; look at them with: tensorboard --logdir " +
          options.out);
  if (options.follow) Follow(store, ids, options, directory, globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpTensorboard(CLI::App& app) {
  auto options = std::make_shared<TensorboardOptions>();
  AddOption(app, "EXP", options->experiments, "Experiments").Required();
  AddOption(
      app, "--out", options->out,
      "New or empty directory, or that of an earlier export, which gets what "
      "is new (default: tensorboard)")
      .TypeName("DIR")
      .IsPath();
  AddFlag(app, "--follow", options->follow,
          "Add new values every second until the experiments are over");
  AddTrialFilter(app, options->filter);
  SetHelp(
      app,
      {.notes = "Each trial is a run of its own, named as dtrain names it; "
                "the tab HPARAMS has a row for each.",
       .exits = ReaderExits(),
       .examples = {{"Write event files for tensorboard --logdir tensorboard",
                     "dtrain tensorboard 3"},
                    {"Keep a directory up to date while an experiment runs",
                     "dtrain tensorboard 3 --out runs --follow"}}});
  return RunWith(Tensorboard, options);
}

}  // namespace dtrain
