// Deletes what no experiment needs. With experiments named, only theirs is
// collected; otherwise also directories of deleted experiments and what crashes
// abandoned. Without a database nothing is deleted, because then every file
// would look like garbage.
//
// Everything that is removed is identified by the record, never by age: a
// checkpoint that the policy of an ended experiment does not keep, a directory
// of an experiment that the database has deleted, a staging directory without
// an experiment. A directory with a number that this database has never
// assigned belongs to another database and stays. Records change before files
// are removed, so that a crash leaves files that the next collection finds.
// Names that end in .trash are trees whose removal was interrupted.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/disk_use.h"
#include "engine/app/stores.h"
#include "engine/app/trial_files.h"
#include "engine/base/rng.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/read_config.h"
#include "engine/context/staged_files.h"
#include "engine/context/working_tree.h"
#include "engine/report/format.h"
#include "engine/run/checkpoint_keeper.h"
#include "engine/run/runner_lock.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"
#include "engine/store/rows.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A file or directory that was removed, or would be removed in a dry run.
struct Garbage {
  std::int64_t experiment = 0;  // 0: none has it
  std::string kind;             // "checkpoint", "files" or "leftover"
  fs::path path;
  std::int64_t bytes = 0;
  std::string why;
};

// Removes unreferenced files from a store: checkpoints of ended experiments
// that the configuration does not keep, files that commands wrote where they
// ran, and leftovers of crashes. Leaves alone every experiment that has a
// runner. A dry collection only reports.
class GarbageCollection {
 public:
  // `files`: also those that programs wrote in their working directories, but
  // not of the best trials.
  GarbageCollection(Store& store, bool dry, bool files)
      : store_(store), dry_(dry), files_(files) {}

  // Returns false, and removes nothing, if a runner or a trial is alive.
  [[nodiscard]] bool Collect(const ExperimentRow& experiment);
  // Removes directories of deleted experiments. One whose id this database
  // never assigned belongs to another database, and stays.
  void CollectDeleted();

  // Removes files of experiments whose `create` died before it recorded them.
  void CollectAbandoned();

  const std::vector<Garbage>& removed() const { return removed_; }
  // Bytes of files of programs that a collection with `files` would remove.
  std::int64_t left_files() const { return left_files_; }
  // Reasons for which directories of checkpoint_storage were left alone: they
  // belong to another store.
  std::vector<std::string> PassedOver() const;

 private:
  void ApplyPolicy(const ExperimentRow& experiment);
  void RemoveLeftovers(const ExperimentRow& row);
  void RemoveTrash(std::int64_t experiment, const fs::path& directory);
  // Removes the working trees of a trial that ran a command.
  void RemoveTrees(TrialId trial, bool keeps_files);
  void RemoveLeftoversIn(const fs::path& directory, std::int64_t experiment,
                         const std::vector<CheckpointRow>& checkpoints);
  bool IsForeign(const std::string& storage);
  std::vector<std::string> OwnStorages();
  void CollectDeletedIn(const fs::path& root);
  void RemovePlaced(std::int64_t experiment);
  void Remove(Garbage garbage);

  Store& store_;
  bool dry_;
  bool files_;
  std::int64_t left_files_ = 0;
  std::vector<Garbage> removed_;
  std::map<std::string, std::string>
      foreign_;  // storage to StorageOwnerProblem
};

constexpr const char* kWasBeingDeleted = "its deletion was interrupted";
constexpr const char* kNeverRecorded = "its experiment was never recorded";

std::optional<std::int64_t> Number(std::string_view name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || rest != end || number < 1) return std::nullopt;
  return number;
}

// Returns why an entry in a trial's checkpoint directory is not needed; empty
// if it is.
std::string GarbageReason(const std::string& name,
                          const std::vector<CheckpointRow>& checkpoints) {
  if (name.ends_with(kUnfinishedSuffix)) return "is unfinished";
  if (name.ends_with(kTrashSuffix)) return kWasBeingDeleted;
  if (!IsUuid(name)) return "";
  const auto row = std::ranges::find(checkpoints, name, &CheckpointRow::uuid);
  if (row == checkpoints.end()) return "is not recorded";
  return row->state == "DELETED" ? "is recorded as deleted" : "";
}

bool GarbageCollection::Collect(const ExperimentRow& experiment) {
  const std::int64_t id = experiment.id;
  const fs::path lock_file = store_.layout().RunnerLock(id);
  if (RunnerLock::Holder(lock_file)) return false;
  // A trial may outlive its runner while it saves a checkpoint.
  const bool lives = std::ranges::any_of(
      store_.Trials(id), [boot = BootId()](const TrialRow& trial) {
        return LivingProcess(trial, boot).has_value();
      });
  if (lives) return false;
  std::optional<RunnerLock> lock;
  if (!dry_) lock = LockExperiment(store_, id);
  // Read again under the lock.
  const auto rows = store_.Experiments({.archived = true, .id = id});
  if (rows.empty()) return true;
  if (IsFinal(rows.front().state)) ApplyPolicy(rows.front());
  RemoveLeftovers(rows.front());
  return true;
}

void GarbageCollection::ApplyPolicy(const ExperimentRow& experiment) {
  const auto detail = store_.Experiment(experiment.id);
  if (!detail) return;
  auto checkpoints = store_.Checkpoints(experiment.id);
  std::erase_if(checkpoints, [&](const CheckpointRow& row) {
    return row.state != "COMPLETED" || IsForeign(row.storage);
  });
  const auto keep = CheckpointsToKeep(
      ConfigFromJson(detail->config).checkpoints, experiment.smaller_is_better,
      checkpoints, /*unfinished=*/{});
  std::erase_if(checkpoints, [&](const CheckpointRow& row) {
    return keep.contains(row.uuid);
  });
  if (!dry_ && !checkpoints.empty()) {
    store_.Write([&](StoreWriter& writer) {
      for (const CheckpointRow& row : checkpoints) {
        writer.SetCheckpointState(row.uuid, "DELETED");
      }
    });
  }
  for (const CheckpointRow& row : checkpoints) {
    Remove({.experiment = experiment.id,
            .kind = "checkpoint",
            .path = store_.CheckpointPath(row),
            .why = "the checkpoint policy does not keep it"});
  }
}

void GarbageCollection::RemoveLeftovers(const ExperimentRow& row) {
  const std::int64_t experiment = row.id;
  const auto keep_files = TrialsThatKeepFiles(store_, row);
  const auto checkpoints = store_.Checkpoints(experiment, /*deleted=*/true);
  const StoreLayout& layout = store_.layout();
  const fs::path trials = layout.Trials(experiment);
  for (const fs::path& place : {layout.Experiment(experiment), trials}) {
    RemoveTrash(experiment, place);
  }
  for (const std::string& name : NamesIn(trials)) {
    const auto number = Number(name);
    if (!number) continue;
    const TrialId trial{experiment, *number};
    RemoveTrash(experiment, layout.Trial(trial));
    RemoveLeftoversIn(layout.Checkpoints(trial), experiment, checkpoints);
    RemoveTrees(trial, keep_files.contains(*number));
  }
  for (const std::string& storage : OwnStorages()) {
    const fs::path root =
        store_.StorageRoot(storage) / std::to_string(experiment);
    for (const std::string& name : NamesIn(root)) {
      const auto number = Number(name);
      if (!number) continue;
      RemoveLeftoversIn(
          store_.CheckpointDirectory({experiment, *number}, storage),
          experiment, checkpoints);
    }
  }
}

void GarbageCollection::RemoveTrash(std::int64_t experiment,
                                    const fs::path& directory) {
  for (const fs::path& path : TrashIn(directory)) {
    Remove({.experiment = experiment,
            .kind = "leftover",
            .path = path,
            .why = kWasBeingDeleted});
  }
}

void GarbageCollection::RemoveLeftoversIn(
    const fs::path& directory, std::int64_t experiment,
    const std::vector<CheckpointRow>& checkpoints) {
  for (const std::string& name : NamesIn(directory)) {
    const fs::path path = directory / name;
    const bool known = std::ranges::find(removed_, path, &Garbage::path) !=
                       removed_.end();  // by its policy, in a dry run
    const std::string why = GarbageReason(name, checkpoints);
    if (known || why.empty()) continue;
    Remove({.experiment = experiment,
            .kind = "leftover",
            .path = path,
            .why = why});
  }
}

void GarbageCollection::RemoveTrees(TrialId trial, bool keeps_files) {
  const fs::path tree = store_.layout().WorkingTree(trial);
  const std::string own = tree.filename().string();
  for (const std::string& name : NamesIn(tree.parent_path())) {
    const bool unfinished = name == NewTree(own).string();
    const bool trash = name == own + std::string(kTrashSuffix);
    if (!unfinished && !trash && (name != own || keeps_files)) continue;
    if (name == own && !files_) {
      left_files_ += FreeableBytes(tree.parent_path() / name);
      continue;
    }
    Remove({.experiment = trial.experiment,
            .kind = name == own ? "files" : "leftover",
            .path = tree.parent_path() / name,
            .why = unfinished ? "is unfinished"
                   : trash    ? "its deletion was interrupted"
                              : "trial " + ToString(trial) +
                                 " used it and has ended"});
  }
}

// True if it has the checkpoints of a store of which this is a copy.
bool GarbageCollection::IsForeign(const std::string& storage) {
  if (storage.empty()) return false;
  const auto [at, first] = foreign_.try_emplace(storage);
  if (first)
    at->second = StorageOwnerProblem(store_, store_.StorageRoot(storage));
  return !at->second.empty();
}

// Storage directories that exist and belong to this user and store.
std::vector<std::string> GarbageCollection::OwnStorages() {
  std::vector<std::string> storages = store_.Storages();
  std::erase_if(storages, [&](const std::string& storage) {
    return !IsOwnDirectory(store_.StorageRoot(storage)) || IsForeign(storage);
  });
  return storages;
}

std::vector<std::string> GarbageCollection::PassedOver() const {
  std::vector<std::string> reasons;
  for (const auto& [storage, why] : foreign_) {
    if (!why.empty()) reasons.push_back(why);
  }
  return reasons;
}

void GarbageCollection::CollectDeleted() {
  CollectDeletedIn(store_.layout().Experiments());
  for (const std::string& storage : OwnStorages()) {
    CollectDeletedIn(store_.StorageRoot(storage));
  }
}

void GarbageCollection::CollectDeletedIn(const fs::path& root) {
  // Looked at before the rows: a directory comes after its row.
  const std::vector<std::string> names = NamesIn(root);
  const std::int64_t last = store_.LastExperimentId();
  std::set<std::int64_t> known;
  for (const ExperimentRow& row : store_.Experiments({.archived = true})) {
    known.insert(row.id);
  }
  for (const std::string& name : names) {
    const bool trash = name.ends_with(kTrashSuffix);
    const auto id = Number(trash ? std::string_view(name).substr(
                                       0, name.size() - kTrashSuffix.size())
                                 : std::string_view(name));
    if (!id || *id > last || (!trash && known.contains(*id))) continue;
    if (RunnerLock::Holder(root / name / "runner.lock")) continue;
    Remove({.experiment = *id,
            .kind = "leftover",
            .path = root / name,
            .why = "its experiment is deleted"});
  }
}

void GarbageCollection::CollectAbandoned() {
  for (const AbandonedFiles& files : FindAbandonedFiles(store_.layout())) {
    RemovePlaced(files.experiment);
    Remove(
        {.kind = "leftover", .path = files.directory, .why = kNeverRecorded});
  }
}

// Removes files of a `create` that was killed. The next experiment gets the
// same id, so the check runs inside the transaction that would record it.
void GarbageCollection::RemovePlaced(std::int64_t experiment) {
  const fs::path path = store_.layout().Experiment(experiment);
  const auto is_ours = [&] {
    return experiment > store_.LastExperimentId() &&
           fs::exists(fs::symlink_status(path));
  };
  if (experiment <= 0 || !is_ours()) return;
  const std::int64_t bytes = FreeableBytes(path);
  if (!dry_) {
    store_.Write([&](StoreWriter&) {
      if (is_ours()) RemovePlacedFiles(store_.layout(), experiment);
    });
  }
  removed_.push_back({.kind = "leftover",
                      .path = path,
                      .bytes = bytes,
                      .why = kNeverRecorded});
}

void GarbageCollection::Remove(Garbage garbage) {
  garbage.bytes = dry_ ? FreeableBytes(garbage.path) : RemoveTree(garbage.path);
  removed_.push_back(std::move(garbage));
}

struct GcOptions : TableOptions {
  std::vector<std::string> experiments;
  bool files = false;
  bool dry_run = false;
};

Listing<Garbage> GarbageListing() {
  return {
      .name = "removed",
      .columns = {{.name = "experiment", .right = true},
                  {.name = "kind"},
                  {.name = "bytes", .right = true},
                  {.name = "why"},
                  {.name = "path", .elastic = true}},
      .json = [](const Garbage& garbage) -> nlohmann::json {
        const nlohmann::json id = garbage.experiment;
        return {{"experiment", garbage.experiment == 0 ? nlohmann::json() : id},
                {"kind", garbage.kind},
                {"path", garbage.path.string()},
                {"bytes", garbage.bytes},
                {"why", garbage.why}};
      },
      .cells = [](const Garbage& garbage) -> std::vector<Cell> {
        return {garbage.experiment == 0
                    ? Cell("-")
                    : Cell(std::to_string(garbage.experiment)),
                garbage.kind,
                Cell(FormatBytes(garbage.bytes), std::to_string(garbage.bytes)),
                garbage.why, garbage.path.string()};
      }};
}

// Describes the disk space that experiments use, and how to use less.
struct Kept {
  DiskUse use;
  std::int64_t experiments = 0;
  std::int64_t database = 0;
  std::string how_to_keep_less;
};

Kept ReadKept(const Store& store, const std::vector<std::int64_t>& ids) {
  Kept kept{.database = DatabaseBytes(store)};
  for (const std::int64_t id : ids) {
    const DiskUse use = ReadDiskUse(store, id);
    kept.use += use;
    if (ids.size() > 1) continue;
    const ExperimentDetail detail = FindExperimentDetail(store, id);
    kept.how_to_keep_less = HowToKeepLess(use, id, detail.config);
  }
  kept.experiments = static_cast<std::int64_t>(ids.size());
  if (ids.size() > 1 && kept.use.checkpoints().count > 0) {
    kept.how_to_keep_less =
        "'dtrain list -a --columns id,name,size --sort -size' shows the "
        "largest, 'dtrain describe EXP' how to keep less of it";
  }
  return kept;
}

void PrintKeptUse(const Kept& kept, const GlobalOptions& globals) {
  if (kept.experiments == 0) return;
  PrintNotice(globals, std::to_string(kept.experiments) +
                           (kept.experiments == 1 ? " experiment takes "
                                                  : " experiments take ") +
                           kept.use.Text() + "; database of all experiments " +
                           FormatBytes(kept.database));
  if (!kept.how_to_keep_less.empty()) {
    PrintNotice(globals, "to keep less: " + kept.how_to_keep_less);
  }
}

// `kept`: in a dry run.
void Print(const std::vector<Garbage>& removed, std::int64_t left_files,
           const std::vector<std::int64_t>& skipped,
           const std::optional<Kept>& kept, const GcOptions& options,
           const GlobalOptions& globals) {
  std::int64_t bytes = 0;
  for (const Garbage& garbage : removed) bytes += garbage.bytes;
  for (const std::int64_t id : skipped) {
    PrintNotice(globals,
                "experiment " + std::to_string(id) +
                    " is running and was skipped; run gc again after it ends");
  }
  if (options.format() != Format::kText || !removed.empty()) {
    nlohmann::json document = {{"bytes", bytes},
                               {"dry_run", options.dry_run},
                               {"skipped", skipped},
                               {"left_files", left_files}};
    if (kept) {
      document["disk"] = kept->use.Json();
      document["disk"]["database"] = kept->database;
    }
    PrintListing(GarbageListing(), removed, options.format(), globals,
                 document);
  }
  PrintNotice(globals, std::string(options.dry_run ? "would free " : "freed ") +
                           FormatBytes(bytes) + " (" +
                           CountText(removed.size(), "item") + ")");
  if (left_files > 0) {
    PrintNotice(globals, "programs wrote " + FormatBytes(left_files) +
                             " in their working directories, which --files "
                             "deletes but for the best trials");
  }
  if (kept) PrintKeptUse(*kept, globals);
}

int Gc(const GcOptions& options, const GlobalOptions& globals) {
  std::vector<std::int64_t> ids;
  if (!options.experiments.empty()) {
    ids = ResolveExperiments(OpenStore(globals), options.experiments);
  }
  std::error_code error;
  const bool there = fs::exists(FindStore(globals).Database(), error);
  if (!there && ids.empty()) {
    // Without the database every file would look unreferenced.
    Print({}, 0, {}, std::nullopt, options, globals);
    return kExitDone;
  }
  Store store =
      options.dry_run ? OpenStore(globals) : OpenStoreToChange(globals, ids);
  GarbageCollection collection(store, options.dry_run, options.files);
  std::vector<std::int64_t> skipped;
  const auto collect = [&](const ExperimentRow& row) {
    if (!collection.Collect(row)) skipped.push_back(row.id);
  };
  for (const std::int64_t id : ids) collect(FindExperiment(store, id));
  if (ids.empty()) {
    for (const ExperimentRow& row : ListExperiments(store, true)) {
      collect(row);
      ids.push_back(row.id);
    }
    collection.CollectDeleted();
    collection.CollectAbandoned();
  }
  for (const std::string& why : collection.PassedOver()) {
    PrintNotice(globals, "warning: " + why + "; nothing was removed there");
  }
  std::optional<Kept> kept;
  if (options.dry_run) kept = ReadKept(store, ids);
  Print(collection.removed(), collection.left_files(), skipped, kept, options,
        globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpGc(CLI::App& app) {
  auto options = std::make_shared<GcOptions>();
  AddOption(app, "EXP", options->experiments,
            "Experiment IDs; without any, the whole store");
  AddFlag(app, "--files", options->files,
          "Also delete what programs of ended trials wrote in their working "
          "directories; of a completed experiment that of the best trials "
          "stays");
  AddFlag(app, "--dry-run", options->dry_run,
          "List what would be deleted; delete nothing");
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.notes =
           "Deletes checkpoints of ended experiments that their checkpoint "
           "policy does not keep, and leftovers of crashes; with --files also "
           "what programs wrote. Running experiments are skipped.",
       .exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
       .examples = {{"Show how much space can be freed", "dtrain gc --dry-run"},
                    {"Clean up after one experiment", "dtrain gc 3"}}});
  return RunWith(Gc, options);
}

}  // namespace dtrain
