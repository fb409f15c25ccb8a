// `dtrain doctor`: the database, and the files and searches that it records.
//
// Each check collects its findings in a list of its own; Conclude cuts it, or
// says that all is well. A search is checked by a replay: a new searcher
// handles the recorded events, and must return the recorded operations and, at
// the snapshot's event, have the recorded state.

#include "engine/app/doctor.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <system_error>

#include "engine/app/checkpoints.h"
#include "engine/app/record_experiment.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/staged_files.h"
#include "engine/context/stored_context.h"
#include "engine/run/runner_lock.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLines = 20;

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
  if (part.empty()) part.push_back({check, Finding::Kind::kWell, well});
  Shorten(check, part);
  all.insert(all.end(), part.begin(), part.end());
}

}  // namespace

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
    findings.push_back({"database", Finding::Kind::kWell,
                        "passes integrity_check and foreign_key_check"});
  }
  return findings;
}

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

namespace {

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
    if (ToJson(searcher_->Handle(event)) != row.operations) {
      return "replays to other operations than the recorded ones";
    }
    if (snapshot_ && snapshot_->seq == seq_ &&
        searcher_->Save() != snapshot_->state) {
      return "has the snapshot of another search";
    }
    return "";
  }

  // Searchers require events of trials that they created.
  bool IsOfKnownTrial(const Event& event) const {
    return std::visit(
        [this](const auto& of) {
          if constexpr (requires { of.trial; }) {
            return of.trial >= 0 && of.trial < created_;
          }
          return true;
        },
        event);
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
  Replay replay(MakeSearcher(config.searcher, config.hyperparameters, row.seed),
                std::move(snapshot));
  return replay.Check(events);
}

}  // namespace

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
    findings.push_back(
        {"search", Finding::Kind::kRemark,
         "experiment " + std::to_string(row.id) + ": " + problem +
             "; its search is damaged or was recorded by another version of "
             "dtrain, and cannot be resumed; create a new experiment"});
  }
  return findings;
}

}  // namespace dtrain
