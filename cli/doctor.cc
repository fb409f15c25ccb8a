// `dtrain doctor`: checks a store and this machine, and repairs nothing.
//
// The database comes first, since the other checks of a store rely on it. Then
// checkpoints, directories and runners are compared with it, and the recorded
// events of each search are replayed with a new searcher, which must give the
// recorded operations and snapshots again. Last are what surrounds the store
// (SQLite, disk, file modes, locks) and the GPUs and slots of this machine.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/checkpoints.h"
#include "engine/app/record_experiment.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/staged_files.h"
#include "engine/context/stored_context.h"
#include "engine/report/format.h"
#include "engine/run/runner.h"
#include "engine/run/runner_lock.h"
#include "engine/run/search_log.h"
#include "engine/slots/slots.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_system.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"
#include "engine/store/write_lock.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLines = 20;
constexpr std::int64_t kLittleSpace = std::int64_t{1} << 30;
constexpr std::int64_t kLongWal = std::int64_t{128} << 20;

// Finding of a check.
struct Finding {
  enum class Kind {
    kWell,
    kRemark,  // to be looked after; nothing is lost
    kDamage,  // the database itself
  };
  std::string check;  // "database", "disk", …
  Kind kind = Kind::kWell;
  std::string text;  // one line: where, what, what to do
};

using DoctorFindings = std::vector<Finding>;

Finding Well(const std::string& check, const std::string& text) {
  return {check, Finding::Kind::kWell, text};
}

Finding Remark(const std::string& check, const std::string& text) {
  return {check, Finding::Kind::kRemark, text};
}

DoctorFindings CheckDatabase(const Store& store) {
  DoctorFindings findings;
  for (const std::string& problem : store.Problems()) {
    findings.push_back({"database", Finding::Kind::kDamage,
                        store.layout().Database().string() + ": " + problem +
                            "; copy the directory, then restore a backup or "
                            "try sqlite3's .recover"});
    if (findings.size() == kMaxLines) break;
  }
  if (findings.empty()) {
    findings.push_back(
        Well("database", "passes integrity_check and foreign_key_check"));
  }
  return findings;
}

void CheckCheckpoints(const Store& store, std::int64_t experiment,
                      const GlobalOptions& globals, std::size_t& good,
                      DoctorFindings& findings) {
  const std::string command = NamedCommand(
      CommandFor(globals, "checkpoint verify " + std::to_string(experiment)));
  for (const CheckpointRow& row : store.Checkpoints(experiment)) {
    if (row.state == "CORRUPT") {
      findings.push_back(Remark(
          "checkpoints",
          "checkpoint " + row.uuid + " of trial " + ToString(row.trial) +
              " is CORRUPT and is not used; delete it with " +
              NamedCommand(CommandFor(
                  globals, "checkpoint delete " + row.uuid.substr(0, 8)))));
      continue;
    }
    std::error_code error;
    if (!row.storage.empty() &&
        !fs::is_directory(store.StorageRoot(row.storage), error)) {
      continue;  // CheckStorages says so once
    }
    const FileReport report = GlanceAtCheckpoint(store, row);
    if (report.state == FileState::kGood) {
      ++good;
    } else {
      findings.push_back(Remark("checkpoints", report.problem + "; " + command +
                                                   " marks it as CORRUPT"));
    }
  }
}

void CheckExperiment(const Store& store, const ExperimentRow& row,
                     const GlobalOptions& globals, DoctorFindings& findings) {
  const std::string id = std::to_string(row.id);
  if (row.state == State::kInterrupted) {
    findings.push_back(
        Remark("experiments",
               "experiment " + id +
                   " is INTERRUPTED because its runner died; resume it with " +
                   NamedCommand(CommandFor(globals, "resume " + id))));
  }
  std::error_code error;
  const fs::path directory = store.layout().Experiment(row.id);
  for (const fs::path& path : TrashIn(directory)) {
    findings.push_back(Remark(
        "experiments", path.string() + ": its deletion was interrupted; " +
                           NamedCommand(CommandFor(globals, "gc")) +
                           " removes the rest"));
  }
  if (row.started && !fs::is_directory(directory, error)) {
    const auto detail = store.Experiment(row.id);
    if (detail && !ImportedText(*detail).empty()) return;
    const bool elsewhere = detail && !detail->storage.empty();
    findings.push_back(Remark(
        "experiments",
        directory.string() + ": missing, so experiment " + id + " has " +
            (elsewhere
                 ? "no logs (its checkpoints are in " + detail->storage +
                       "); restore it"
                 : "neither logs nor checkpoints; restore it, or delete "
                   "the experiment with " +
                       NamedCommand(CommandFor(globals, "delete " + id)))));
  }
}

// Verifies the stored context of the experiment.
void CheckContext(const Store& store, const ExperimentRow& row,
                  std::size_t& good, DoctorFindings& findings) {
  const auto detail = store.Experiment(row.id);
  if (!detail || !detail->provenance.contains(kContextHash)) return;
  const auto problem = ContextProblem(store.layout(), row.id,
                                      detail->provenance, StrayPolicy(*detail));
  if (!problem) {
    ++good;
    return;
  }
  findings.push_back(
      Remark("contexts", *problem + "; experiment " + std::to_string(row.id) +
                             " cannot run again until this is fixed"));
}

// Reports checkpoints of an experiment outside of the store that are not
// recorded.
void CheckStored(const Store& store, const ExperimentRow& experiment,
                 const std::string& storage, DoctorFindings& findings) {
  // A checkpoint that is being written is not recorded yet.
  if (RunnerLock::Holder(store.layout().RunnerLock(experiment.id))) return;
  std::set<std::string> recorded;
  for (const CheckpointRow& row :
       store.Checkpoints(experiment.id, /*deleted=*/true)) {
    if (row.state != "DELETED") recorded.insert(row.uuid);
  }
  const fs::path trials =
      store.StorageRoot(storage) / std::to_string(experiment.id);
  for (const std::string& trial : NamesIn(trials)) {
    for (const std::string& name : NamesIn(trials / trial)) {
      if (recorded.contains(name)) continue;
      findings.push_back(
          Remark("checkpoints", (trials / trial / name).string() +
                                    ": is not recorded; 'dtrain gc' removes it "
                                    "unless a trial resumes from it"));
    }
  }
}

void CheckStorage(const Store& store, const std::vector<ExperimentRow>& rows,
                  const std::string& storage, std::size_t checkpoints,
                  DoctorFindings& findings) {
  const fs::path root = store.StorageRoot(storage);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(root, error))) {
    if (checkpoints == 0) return;
    findings.push_back(Remark(
        "checkpoints", root.string() + ": does not exist and should hold " +
                           std::to_string(checkpoints) +
                           " checkpoints; mount or restore it"));
    return;
  }
  if (!IsOwnDirectory(root)) {
    findings.push_back(Remark(
        "checkpoints",
        root.string() + ": is not a directory that only you can write to, so "
                        "others could replace checkpoints; run 'chmod go-w' or "
                        "restore the original directory"));
    return;
  }
  if (auto why = StorageOwnerProblem(store, root); !why.empty()) {
    findings.push_back(Remark("checkpoints", std::move(why)));
    return;
  }
  std::set<std::string> expected_names = {kStorageOwnerFile};
  for (const ExperimentRow& row : rows) {
    expected_names.insert(std::to_string(row.id));
    CheckStored(store, row, storage, findings);
  }
  for (const std::string& name : NamesIn(root)) {
    // An empty directory is left from a killed `create`; the next one reuses
    // it.
    if (expected_names.contains(name) || NamesIn(root / name).empty()) continue;
    findings.push_back(Remark(
        "checkpoints", (root / name).string() +
                           ": belongs to no recorded experiment; 'dtrain gc' "
                           "removes directories of deleted experiments"));
  }
}

// Checks the checkpoint_storage directories.
void CheckStorages(const Store& store, const std::vector<ExperimentRow>& rows,
                   DoctorFindings& findings) {
  std::map<std::string, std::size_t> checkpoints;
  for (const std::string& storage : store.Storages()) checkpoints[storage] = 0;
  if (checkpoints.empty()) return;
  for (const ExperimentRow& experiment : rows) {
    for (const CheckpointRow& row : store.Checkpoints(experiment.id)) {
      if (!row.storage.empty()) ++checkpoints[row.storage];
    }
  }
  for (const auto& [storage, count] : checkpoints) {
    CheckStorage(store, rows, storage, count, findings);
  }
}

// Reports directories that belong to no recorded experiment.
void CheckDirectories(const Store& store,
                      const std::vector<ExperimentRow>& rows,
                      const GlobalOptions& globals, DoctorFindings& findings) {
  const std::string gc = NamedCommand(CommandFor(globals, "gc"));
  std::set<std::string> expected_names;
  for (const ExperimentRow& row : rows)
    expected_names.insert(std::to_string(row.id));
  const std::int64_t last = store.LastExperimentId();
  // Directories of a killed `create` are removed together with its files.
  const auto abandoned = FindAbandonedFiles(store.layout());
  for (const AbandonedFiles& files : abandoned) {
    if (files.experiment > last) {
      expected_names.insert(std::to_string(files.experiment));
    }
  }
  std::error_code error;
  fs::directory_iterator entry(store.layout().Experiments(), error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (expected_names.contains(name) || IsStaged(name)) continue;
    std::int64_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    const bool ours = id > 0 && id <= last;
    findings.push_back(
        Remark("experiments",
               entry->path().string() +
                   (ours ? ": its experiment is deleted; " + gc + " removes it"
                         : ": belongs to no experiment in this database; move "
                           "it away, or restore the database it belongs to")));
  }
  for (const AbandonedFiles& files : abandoned) {
    findings.push_back(
        Remark("experiments", files.directory.string() +
                                  ": its experiment was never recorded; " + gc +
                                  " removes it"));
  }
}

// Keeps at most kMaxLines findings, and adds the number of the others.
void Shorten(const std::string& check, DoctorFindings& findings) {
  if (findings.size() <= kMaxLines) return;
  const std::size_t more = findings.size() - kMaxLines;
  findings.resize(kMaxLines);
  findings.push_back(Remark(check, "and " + std::to_string(more) + " more"));
}

void Conclude(const std::string& check, const std::string& well,
              DoctorFindings& part, DoctorFindings& all) {
  if (part.empty()) part.push_back(Well(check, well));
  Shorten(check, part);
  all.insert(all.end(), part.begin(), part.end());
}

// True if a searcher's state has all that an older version has saved of it:
// later versions add fields, and numbers at the end of rows.
bool Contains(const nlohmann::json& state, const nlohmann::json& saved) {
  if (saved.is_object() && state.is_object()) {
    return std::ranges::all_of(saved.items(), [&](const auto& item) {
      return state.contains(item.key()) &&
             Contains(state.at(item.key()), item.value());
    });
  }
  if (!saved.is_array() || !state.is_array()) return saved == state;
  const bool is_row = !state.empty() && state.front().is_primitive();
  if (saved.size() > state.size() || (saved.size() < state.size() && !is_row)) {
    return false;
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (!Contains(state[i], saved[i])) return false;
  }
  return true;
}

// Replays the events of one search from the first.
class Replay {
 public:
  Replay(std::unique_ptr<Searcher> searcher,
         std::optional<Store::Snapshot> snapshot)
      : searcher_(std::move(searcher)), snapshot_(std::move(snapshot)) {}

  // Returns the first problem, or an empty string.
  std::string Check(const std::vector<SearcherEventRow>& rows) {
    for (const SearcherEventRow& row : rows) {
      ++seq_;
      if (row.seq != seq_)
        return "event " + std::to_string(seq_) + " is missing";
      std::string problem;
      try {
        problem = CheckEvent(row);
      } catch (const std::invalid_argument& error) {
        problem = error.what();
      }
      if (problem.empty()) continue;
      return "at event " + std::to_string(seq_) + " " + problem;
    }
    if (snapshot_ && snapshot_->seq > seq_) {
      return "event " + std::to_string(seq_ + 1) + " is missing";
    }
    return "";
  }

 private:
  std::string CheckEvent(const SearcherEventRow& row) {
    const Event event = EventFromJson(row.event);
    if (!IsOfKnownTrial(event)) return "names a trial that was not created";
    for (const nlohmann::json& operation : row.operations) {
      const Operation recorded = OperationFromJson(operation);
      if (std::get_if<Create>(&recorded) != nullptr) ++created_;
    }
    if (ToJson(HandleRecorded(*searcher_, event)) != row.operations) {
      return "replays to other operations than the recorded ones";
    }
    if (snapshot_ && snapshot_->seq == seq_ &&
        !Contains(searcher_->Save(), snapshot_->state)) {
      return "has the snapshot of another search";
    }
    return "";
  }

  // Searchers require events of trials that they created.
  bool IsOfKnownTrial(const Event& event) const {
    return std::visit(
        [this](const auto& of) {
          if constexpr (requires { of.trial; }) {
            return IsKnown(of.trial);
          } else if constexpr (requires { of.trials; }) {
            return std::ranges::all_of(of.trials, [this](const auto& one) {
              return IsKnown(one.trial);
            });
          }
          return true;
        },
        event);
  }

  bool IsKnown(TrialIndex trial) const {
    return trial >= 0 && trial < created_;
  }

  std::unique_ptr<Searcher> searcher_;
  std::optional<Store::Snapshot> snapshot_;
  std::int64_t seq_ = 0;
  TrialIndex created_ = 0;
};

std::string CheckSearch(const Store& store, const ExperimentRow& row) {
  // Read the snapshot first: a runner may add events meanwhile.
  auto snapshot = store.LatestSnapshot(row.id);
  const auto events = store.SearcherEvents(row.id, 0);
  if (events.empty() && !snapshot) return "";  // it never began
  const ExperimentDetail detail = FindExperimentDetail(store, row.id);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  Replay replay(MakeSearcher(CreatedSearcher(detail, config.searcher),
                             config.hyperparameters, row.seed),
                std::move(snapshot));
  return replay.Check(events);
}

DoctorFindings CheckSearches(const Store& store,
                             const std::vector<ExperimentRow>& rows) {
  DoctorFindings findings;
  for (const ExperimentRow& row : rows) {
    std::string problem;
    try {
      problem = CheckSearch(store, row);
    } catch (const Error& error) {
      problem =
          std::string("its configuration cannot be read: ") + error.what();
    }
    if (problem.empty()) continue;
    findings.push_back(Remark(
        "search",
        "experiment " + std::to_string(row.id) + ": " + problem +
            "; its search is damaged or was recorded by another version of "
            "dtrain, and cannot be resumed; create a new experiment"));
  }
  return findings;
}

// Compares checkpoints, directories and runners with the database.
DoctorFindings CheckExperiments(const Store& store,
                                const GlobalOptions& globals) {
  const auto rows = ListExperiments(store, /*archived=*/true);
  DoctorFindings experiments;
  DoctorFindings contexts;
  DoctorFindings checkpoints;
  std::size_t whole = 0;
  std::size_t good = 0;
  for (const ExperimentRow& row : rows) {
    CheckExperiment(store, row, globals, experiments);
    CheckContext(store, row, whole, contexts);
    CheckCheckpoints(store, row.id, globals, good, checkpoints);
  }
  CheckDirectories(store, rows, globals, experiments);
  for (const LeftJob& job : FindLeftJobs(store)) {
    experiments.push_back(Remark(
        "experiments", "job " + job.id + " of Slurm belongs to experiment " +
                           std::to_string(job.experiment) +
                           ", which has no runner; end it with 'scancel " +
                           job.id + "'"));
  }
  CheckStorages(store, rows, checkpoints);
  DoctorFindings searches = CheckSearches(store, rows);
  DoctorFindings all;
  Conclude("experiments", std::to_string(rows.size()) + " experiments",
           experiments, all);
  Conclude("contexts", std::to_string(whole) + " contexts are intact", contexts,
           all);
  Conclude("search", "recorded searches replay identically", searches, all);
  Conclude("checkpoints",
           std::to_string(good) +
               " checkpoints are present; 'dtrain checkpoint verify' checks "
               "their contents",
           checkpoints, all);
  return all;
}

// "3.40.1" as 3040001.
int VersionNumber(const std::string& version) {
  int number = 0;
  for (const std::string& part : Split(version, '.')) {
    number = number * 1000 + std::atoi(part.c_str());
  }
  return number;
}

Finding CheckSqlite() {
  const std::string version = SqliteVersion();
  const bool affected = VersionNumber(version) < 3051003;
  return Well(
      "sqlite",
      "SQLite " + version +
          (affected ? " has the WAL-reset bug (fixed in 3.51.3), which "
                      "requires two concurrent writers; dtrain never has two, "
                      "so let no other program write to the store"
                    : ""));
}

Finding CheckDisk(const fs::path& root) {
  struct statvfs state {};
  if (::statvfs(root.c_str(), &state) != 0) {
    return Remark("disk",
                  root.string() + ": cannot read the state of its file system");
  }
  const auto free = static_cast<std::int64_t>(state.f_bavail * state.f_frsize);
  const std::string text = root.string() + ": " + FormatBytes(free) + " free";
  if ((state.f_flag & ST_RDONLY) != 0) {
    return Remark("disk", text + ", read-only; nothing can be recorded here");
  }
  if (free >= kLittleSpace) return Well("disk", text);
  return Remark(
      "disk",
      text +
          "; free some space, 'dtrain gc --dry-run' lists what can be deleted");
}

Finding CheckFileSystem(const fs::path& root) {
  const FileSystem system = FindFileSystem(root);
  switch (system.kind) {
    case FileSystem::Kind::kLocal:
      return Well("file system", "local file system");
    case FileSystem::Kind::kPerhaps:
      return Remark("file system", root.string() + ": is on " + system.name +
                                       "; if that is a network file system, "
                                       "let only one machine write to it");
    case FileSystem::Kind::kNetworked:
      break;
  }
  return Remark("file system",
                root.string() + ": is on " + system.name +
                    ", where writers on two machines damage a database; move "
                    "it to a local disk, or let only one machine write to it");
}

void CheckMode(const fs::path& path, DoctorFindings& findings) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & 077) == 0) return;
  std::array<char, 16> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & 07777);
  findings.push_back(
      Remark("modes",
             path.string() + ": mode " + mode.data() +
                 ", so other users have access; " +
                 NamedCommand("chmod go= " + QuotePathForShell(path.string())) +
                 " restricts it to you"));
}

DoctorFindings CheckModes(const StoreLayout& layout) {
  DoctorFindings findings;
  CheckMode(layout.root(), findings);
  CheckMode(layout.Database(), findings);
  CheckMode(layout.WriteLock(), findings);
  CheckMode(layout.Experiments(), findings);
  if (findings.empty()) {
    findings.push_back(Well("modes", "only you can read the store"));
  }
  return findings;
}

// Writers hold the lock for only some milliseconds.
Finding CheckWriteLock(const StoreLayout& layout) {
  try {
    WriteLock lock(layout.WriteLock());
    std::string held;
    for (int tries = 0; tries < 100; ++tries) {
      if (lock.TryAcquire()) {
        // A program other than dtrain holds only SQLite's own locks.
        const auto holder = DatabaseHolder(layout.Database());
        lock.Release();
        if (!holder) return Well("write lock", "free");
        held =
            layout.Database().string() + ": held for two seconds by " + *holder;
      } else {
        held = layout.WriteLock().string() + ": held for two seconds by " +
               lock.Holder();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return Remark("write lock", held + "; check that process");
  } catch (const Error& error) {
    return Remark("write lock", error.what());
  }
}

Finding CheckWal(const StoreLayout& layout) {
  std::error_code error;
  const auto size = fs::file_size(layout.Database().string() + "-wal", error);
  const auto bytes = error ? 0 : static_cast<std::int64_t>(size);
  const std::string text = "write-ahead log of " + FormatBytes(bytes);
  if (bytes < kLongWal) return Well("wal", text);
  return Remark(
      "wal", text + ": a long-running reader keeps it from shrinking; " +
                 NamedCommand("fuser " +
                              QuotePathForShell(layout.Database().string())) +
                 " lists such processes");
}

// Checks the SQLite library, the disk, file modes, the write lock and the
// write-ahead log.
DoctorFindings CheckSurroundings(const StoreLayout& layout) {
  DoctorFindings findings = {CheckSqlite(), CheckDisk(layout.root()),
                             CheckFileSystem(layout.root())};
  for (Finding& finding : CheckModes(layout)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(CheckWriteLock(layout));
  findings.push_back(CheckWal(layout));
  return findings;
}

DoctorFindings CheckMachine() {
  const GpuSearch search = FindGpus(std::chrono::seconds(10));
  const std::vector<Gpu>& gpus = search.gpus;
  const std::int64_t cpus = UsableCpus();
  std::size_t free = 0;
  const auto uses = SlotsInUse(gpus, cpus);
  for (const SlotUse& use : uses) free += use.free() ? 1 : 0;
  DoctorFindings findings = {Well(
      "slots", std::to_string(gpus.size()) + " GPUs, " + std::to_string(cpus) +
                   " CPUs; " + std::to_string(free) + " of " +
                   std::to_string(uses.size()) + " slots are free")};
  if (!search.problem.empty()) {
    findings.push_back(Remark("slots", search.problem));
    return findings;
  }
  if (!search.model_problem.empty()) {
    findings.push_back(
        Remark("slots", search.model_problem + "; programs can use the GPUs"));
  }
  for (const std::string& warning : search.warnings) {
    findings.push_back(Remark("slots", warning));
  }
  return findings;
}

struct DoctorOptions : JsonOption {};

void Append(DoctorFindings& all, DoctorFindings more) {
  std::ranges::move(more, std::back_inserter(all));
}

bool HasDamage(const DoctorFindings& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.kind == Finding::Kind::kDamage;
  });
}

void CheckStore(const StoreLayout& layout, const GlobalOptions& globals,
                DoctorFindings& all) {
  std::error_code error;
  if (!fs::exists(layout.Database(), error)) {
    all.push_back(Well(
        "database",
        layout.root().string() + ": no store yet; 'dtrain create' creates it"));
    return;
  }
  try {
    const Store store = Store::OpenForReading(layout);
    Append(all, CheckDatabase(store));
    if (!HasDamage(all)) Append(all, CheckExperiments(store, globals));
  } catch (const Error& damage) {
    all.push_back({"database", Finding::Kind::kDamage, damage.what()});
  }
  Append(all, CheckSurroundings(layout));
}

std::string_view KindName(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kWell:
      return "ok";
    case Finding::Kind::kRemark:
      return "finding";
    case Finding::Kind::kDamage:
      return "damage";
  }
  return "";
}

void Print(const DoctorFindings& findings, const GlobalOptions& globals) {
  const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
  for (const Finding& finding : findings) {
    const Tone tone = finding.kind == Finding::Kind::kWell     ? Tone::kGood
                      : finding.kind == Finding::Kind::kRemark ? Tone::kWarning
                                                               : Tone::kBad;
    std::string kind(KindName(finding.kind));
    kind.resize(9, ' ');
    std::string check = finding.check;
    check.resize(13, ' ');
    std::cout << Paint(mode, tone, kind) << check
              << WrapForStdout(finding.text, kind.size() + check.size(),
                               kWrapIndent)
              << '\n';
  }
}

int Doctor(const DoctorOptions& options, const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  DoctorFindings findings;
  CheckStore(layout, globals, findings);
  Append(findings, CheckMachine());
  const bool well = std::ranges::all_of(findings, [](const Finding& finding) {
    return finding.kind == Finding::Kind::kWell;
  });
  if (options.json) {
    nlohmann::json checks = nlohmann::json::array();
    for (const Finding& finding : findings) {
      checks.push_back({{"check", finding.check},
                        {"status", KindName(finding.kind)},
                        {"text", finding.text}});
    }
    PrintJson({{"store", layout.root().string()},
               {"ok", well},
               {"checks", std::move(checks)}});
  } else {
    Print(findings, globals);
  }
  if (HasDamage(findings)) return kExitStore;
  return well ? kExitDone : kExitFailed;
}

}  // namespace

CommandRun SetUpDoctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = {{kExitDone, "no problem found"},
                          {kExitFailed, "there are findings"},
                          {kExitUsage},
                          {kExitStore, "the database is damaged"}},
                .examples = {{"Check the current store", "dtrain doctor"},
                             {"Check another store, for a script",
                              "dtrain --store /data/dtrain doctor --json"}}});
  return RunWith(Doctor, options);
}

}  // namespace dtrain
