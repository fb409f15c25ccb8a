// Finding and opening the store of a command, and the experiments, trials and
// checkpoints that its arguments name.
//
// States are derived here: the database says RUNNING for an experiment whose
// runner was killed, because nothing could record its end. A runner holds the
// lock file of its experiment while it lives, so an experiment that is RUNNING
// or PENDING in the database without a lock holder is shown as INTERRUPTED, and
// so are its unfinished trials.
//
// A store that is found by walking up from the working directory may have been
// planted there by another user, and stores contain programs that are executed.
// Such a store is used only if it belongs to the user and no one else can write
// to it; a store named with --store is trusted.

#include "engine/app/stores.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"
#include "engine/report/format.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/runner_lock.h"
#include "engine/slots/slots.h"
#include "engine/store/file_system.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr char kStoreName[] = ".dtrain";

fs::path Absolute(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) {
    throw Error(
        ErrorKind::kStore,
        "the working directory no longer exists; change to another one, "
        "or give an absolute --store");
  }
  return absolute.lexically_normal();
}

bool IsLive(State state) {
  return state == State::kRunning || state == State::kPending;
}

void DeriveState(const StoreLayout& layout, ExperimentRow& row) {
  if (!IsLive(row.state)) return;
  if (RunnerLock::Holder(layout.RunnerLock(row.id))) return;
  row.state = State::kInterrupted;
}

// A trial's process ends with its runner. A length that the trial ended early
// counts as completed for the search, but the trial has not reached its rung.
void DeriveState(const ExperimentRow& experiment, TrialRow& trial) {
  if (trial.reason.starts_with(kEndedEarly) && trial.rung > 0) --trial.rung;
  if (experiment.state != State::kInterrupted || !IsLive(trial.state)) return;
  trial.state = State::kInterrupted;
  trial.pid = 0;
}

[[noreturn]] void NoExperiment(const Store& store, std::int64_t id) {
  throw Error(ErrorKind::kNotFound, "no experiment " + std::to_string(id) +
                                        " in " +
                                        store.layout().root().string() +
                                        "; 'dtrain list -a' lists all");
}

// The owner of a store decides what is executed from it, so a store that is
// found must belong to the user; under sudo, to the calling user. Returns the
// reason why it does not, or an empty string.
std::string OwnerProblem(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return "";
  const bool is_link = S_ISLNK(status.st_mode);
  if (!IsOwnUser(status.st_uid)) {
    return path.string() + (is_link ? " is a link owned by" : " belongs to") +
           " another user (uid " + std::to_string(status.st_uid) + ")";
  }
  if (is_link) {
    std::error_code error;
    const fs::path target = fs::canonical(path, error);
    return error ? "" : OwnerProblem(target);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  return "other users can write to " + path.string() + " (chmod go-w " +
         QuotePathForShell(path.string()) + ")";
}

std::string StoreOwnerProblem(const fs::path& store) {
  const std::string why = OwnerProblem(store);
  return why.empty() ? OwnerProblem(StoreLayout(store).Database()) : why;
}

void WarnAboutSkipped(const fs::path& store, const std::string& why,
                      const GlobalOptions& globals) {
  static std::set<fs::path> said;
  if (!said.insert(store).second) return;
  PrintNotice(globals, "warning: skipped " + store.string() + ": " + why +
                           "; to use it anyway: --store " +
                           QuotePathForShell(store.string()));
}

[[noreturn]] void FailNoCheckpoint(TrialId trial) {
  throw Error(
      ErrorKind::kNotFound,
      "trial " + ToString(trial) + " has no checkpoint; 'dtrain checkpoints " +
          std::to_string(trial.experiment) +
          "' lists those of all trials; checkpoint_storage.save_trial_best in "
          "the YAML keeps the best one of each");
}

}  // namespace

StoreLayout FindStore(const GlobalOptions& globals) {
  if (!globals.store.empty()) return StoreLayout(Absolute(globals.store));
  const char* variable = std::getenv("DTRAIN_STORE");
  if (variable != nullptr && *variable != '\0')
    return StoreLayout(Absolute(variable));
  const fs::path here = Absolute(".");
  for (fs::path directory = here;; directory = directory.parent_path()) {
    std::error_code ignored;
    const fs::path candidate = (directory / kStoreName).lexically_normal();
    if (fs::is_directory(candidate, ignored)) {
      const std::string why = StoreOwnerProblem(candidate);
      // Resolve a link once, so that it cannot be changed meanwhile.
      if (why.empty()) {
        return StoreLayout(fs::is_symlink(candidate, ignored)
                               ? fs::canonical(candidate)
                               : candidate);
      }
      if (directory == here) {
        throw Error(ErrorKind::kStore,
                    why + "; to use it anyway: --store " + kStoreName);
      }
      WarnAboutSkipped(candidate, why, globals);
    }
    if (directory == directory.parent_path()) break;
  }
  return StoreLayout((here / kStoreName).lexically_normal());
}

bool IsPlainlyChosen(const StoreLayout& layout, const GlobalOptions& globals) {
  const char* variable = std::getenv("DTRAIN_STORE");
  return !globals.store.empty() || (variable != nullptr && *variable != '\0') ||
         layout.root() == (Absolute(".") / kStoreName).lexically_normal();
}

Store OpenStore(const GlobalOptions& globals) {
  return Store::OpenForReading(FindStore(globals));
}

Store OpenStoreForWriting(const StoreLayout& layout,
                          const GlobalOptions& globals) {
  const FileSystem system = FindFileSystem(layout.root());
  if (system.kind == FileSystem::Kind::kPerhaps && !globals.allow_network_fs) {
    PrintNotice(
        globals,
        "warning: store " + layout.root().string() + " is on " + system.name +
            "; if that is a network file system, let only this machine write "
            "to it (--allow-network-fs silences this warning)");
  }
  return Store::OpenForWriting(layout, globals.allow_network_fs
                                           ? NetworkWrites::kAllowed
                                           : NetworkWrites::kRefused);
}

ExperimentRow FindExperiment(const Store& store, std::int64_t id) {
  auto rows = store.Experiments({.archived = true, .id = id});
  if (rows.empty()) NoExperiment(store, id);
  DeriveState(store.layout(), rows.front());
  return std::move(rows.front());
}

ExperimentDetail FindExperimentDetail(const Store& store, std::int64_t id) {
  auto detail = store.Experiment(id);
  if (!detail) NoExperiment(store, id);
  DeriveState(store.layout(), detail->row);
  return *std::move(detail);
}

ExperimentRow FindTarget(const Store& store, const Target& target) {
  ExperimentRow row = FindExperiment(store, target.experiment);
  if (!target.trial) return row;
  (void)FindTrial(store, row, *target.trial);
  return row;
}

CheckpointRow FindCheckpoint(const Store& store, const std::string& prefix) {
  CheckpointRow checkpoint = store.CheckpointByPrefix(prefix);
  if (checkpoint.state != "DELETED") return checkpoint;
  throw Error(ErrorKind::kNotFound,
              "checkpoint " + checkpoint.uuid +
                  " is deleted; 'dtrain checkpoints " +
                  std::to_string(checkpoint.trial.experiment) +
                  "' lists the existing ones");
}

std::optional<CheckpointRow> BestSavedCheckpoint(
    const std::vector<CheckpointRow>& rows, const ExperimentRow& experiment,
    std::int64_t trial) {
  std::optional<CheckpointRow> best;
  for (const CheckpointRow& row : rows) {
    const bool counts = row.trial.number == trial && row.state == "COMPLETED" &&
                        row.metric && std::isfinite(*row.metric);
    if (!counts) continue;
    const bool is_better = !best || IsBetter(*row.metric, *best->metric,
                                             experiment.smaller_is_better);
    if (is_better) best = row;
  }
  return best;
}

CheckpointRow FindBestCheckpoint(const Store& store, const Target& target) {
  const ExperimentRow experiment = FindTarget(store, target);
  const std::int64_t number = target.trial.value_or(experiment.best_trial);
  if (number == 0) {
    throw Error(ErrorKind::kNotFound,
                "experiment " + std::to_string(experiment.id) +
                    " has no finite validation value of '" + experiment.metric +
                    "'; give one of its checkpoints ('dtrain checkpoints " +
                    std::to_string(experiment.id) + "')");
  }
  const TrialRow trial = FindTrial(store, experiment, number);
  if (trial.latest_checkpoint.empty()) FailNoCheckpoint(trial.id);
  if (!trial.best) {
    throw Error(ErrorKind::kNotFound,
                "trial " + ToString(trial.id) +
                    " has no finite validation value of '" + experiment.metric +
                    "'; use its latest checkpoint with '" + ToString(trial.id) +
                    " --latest'");
  }
  if (!trial.best->checkpoint.empty()) {
    return FindCheckpoint(store, trial.best->checkpoint);
  }
  throw Error(
      ErrorKind::kNotFound,
      NoBestCheckpointText(trial, experiment,
                           BestSavedCheckpoint(store.Checkpoints(experiment.id),
                                               experiment, number),
                           FindUnits(store, experiment.id)) +
          "; give a checkpoint, or use the latest with '" + ToString(trial.id) +
          " --latest'");
}

std::string NoBestCheckpointText(const TrialRow& trial,
                                 const ExperimentRow& experiment,
                                 const std::optional<CheckpointRow>& saved,
                                 const Units& units) {
  const std::string text = "trial " + ToString(trial.id) +
                           ": its best validation (" + experiment.metric + " " +
                           FormatBest(trial.best, units) +
                           ") has no checkpoint; ";
  if (!saved) return text + "no other validation has one either";
  return text + "the best one with a checkpoint is " + saved->uuid + " (" +
         FormatBest(BestValidation{.value = *saved->metric,
                                   .batches = saved->batches,
                                   .epoch = saved->epoch},
                    units) +
         ")";
}

TrialRow FindOnlyTrial(const Store& store, const Target& target) {
  const ExperimentRow experiment = FindTarget(store, target);
  if (target.trial) return FindTrial(store, experiment, *target.trial);
  auto trials = ListTrials(store, experiment);
  const std::string id = std::to_string(experiment.id);
  if (trials.empty()) {
    throw Error(
        ErrorKind::kNotFound,
        "experiment " + id +
            " has no trials yet; give another experiment, or a checkpoint");
  }
  if (trials.size() == 1) return std::move(trials.front());
  throw Error(ErrorKind::kUsage,
              "experiment " + id + " has " + std::to_string(trials.size()) +
                  " trials; give one such as " + id + ".1 ('dtrain best " + id +
                  "' shows the best)");
}

CheckpointRow FindLatestCheckpoint(const Store& store, const Target& target) {
  const TrialRow trial = FindOnlyTrial(store, target);
  if (!trial.latest_checkpoint.empty()) {
    return FindCheckpoint(store, trial.latest_checkpoint);
  }
  FailNoCheckpoint(trial.id);
}

CheckpointRow FindSourceCheckpoint(const Store& store, const std::string& text,
                                   bool latest) {
  if (const auto target = ResolveSource(store, text)) {
    return latest ? FindLatestCheckpoint(store, *target)
                  : FindBestCheckpoint(store, *target);
  }
  if (latest) {
    throw Error(
        ErrorKind::kUsage,
        "--latest: requires a trial such as 3.7, not a checkpoint; omit it");
  }
  return FindCheckpoint(store, text);
}

std::vector<ExperimentRow> ListExperiments(const Store& store, bool archived) {
  auto rows = store.Experiments({.archived = archived});
  for (ExperimentRow& row : rows) DeriveState(store.layout(), row);
  return rows;
}

std::vector<TrialRow> ListTrials(const Store& store,
                                 const ExperimentRow& experiment,
                                 TrialParts parts) {
  auto trials = store.Trials(experiment.id, parts);
  for (TrialRow& trial : trials) DeriveState(experiment, trial);
  return trials;
}

TrialRow FindTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number) {
  const TrialId id{experiment.id, number};
  std::optional<TrialRow> trial = store.Trial(id);
  if (!trial) {
    throw Error(ErrorKind::kNotFound,
                "experiment " + std::to_string(id.experiment) +
                    " has no trial " + ToString(id) + "; 'dtrain trials " +
                    std::to_string(id.experiment) + "' lists its trials");
  }
  DeriveState(experiment, *trial);
  return *std::move(trial);
}

SlotQueueView::~SlotQueueView() = default;

SlotQueueView::SlotQueueView(const Store& store) {
  try {
    waits_ = SlotWaits();
  } catch (const Error&) {
    return;  // Who waits cannot be known here; everything else can.
  }
  const std::string root = store.layout().root().string();
  const Timestamp now = Clock::System().now();
  std::erase_if(waits_, [&](const SlotWait& wait) {
    return wait.store != root || now - wait.since < kShownSlotWait;
  });
}

const SlotWait* SlotQueueView::FindWait(const ExperimentRow& row) const {
  if (row.state != State::kRunning) return nullptr;
  const std::string prefix = std::to_string(row.id) + ".";
  const auto is_own = [&](const std::string& trial) {
    return trial.starts_with(prefix);
  };
  for (const SlotWait& wait : waits_) {
    if (std::ranges::none_of(wait.trials, is_own)) continue;
    const bool runs =
        std::ranges::any_of(wait.holders, [&](const SlotHolder& holder) {
          return holder.store == wait.store && is_own(holder.trial);
        });
    return runs ? nullptr : &wait;
  }
  return nullptr;
}

const SlotWait* SlotQueueView::FindWait(const TrialRow& row) const {
  if (IsFinal(row.state) || row.state == State::kInterrupted) return nullptr;
  for (const SlotWait& wait : waits_) {
    if (std::ranges::count(wait.trials, ToString(row.id)) > 0) return &wait;
  }
  return nullptr;
}

Unit CountedUnit(const Store& store, std::int64_t experiment) {
  return FindUnits(store, experiment).counted;
}

std::optional<Unit> FindCountedUnit(const Store& store,
                                    std::int64_t experiment) {
  try {
    return CountedUnit(store, experiment);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kStore) throw;
    return std::nullopt;
  }
}

Units FindUnits(const Store& store, std::int64_t experiment) {
  const ExperimentDetail detail = FindExperimentDetail(store, experiment);
  return FindUnits(store, experiment, ConfigFromJson(detail.config));
}

bool KnowsEpochs(const Store& store, std::int64_t experiment) {
  const ExperimentDetail detail = FindExperimentDetail(store, experiment);
  const ExperimentConfig config = ConfigFromJson(detail.config);
  const bool planned = config.searcher.max_length > 0;
  // Each report of a search in epochs has one, which may be 0.
  return !IsCommand(config) ||
         (planned && config.length_unit == Unit::kEpochs) ||
         store.HasEpochs(experiment);
}

std::string DifferentUnitsText(const std::vector<std::int64_t>& experiments,
                               const std::vector<Unit>& units) {
  std::vector<std::pair<Unit, std::vector<std::string>>> groups;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    auto group = std::ranges::find(groups, units[i],
                                   [](const auto& one) { return one.first; });
    if (group == groups.end()) {
      groups.push_back({units[i], {}});
      group = std::prev(groups.end());
    }
    const std::string id = std::to_string(experiments[i]);
    if (std::ranges::count(group->second, id) == 0) group->second.push_back(id);
  }
  if (groups.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [unit, ids] : groups) {
    const bool several = ids.size() > 1;
    texts.push_back((several ? "experiments " : "experiment ") +
                    Join(ids, ", ") + (several ? " count " : " counts ") +
                    std::string(UnitName(unit)));
  }
  return Join(texts, "; ");
}

std::string StateText(State state, const SlotWait* wait) {
  return std::string(StateName(state)) + (wait == nullptr ? "" : " (waiting)");
}

std::string ProgramFor(const GlobalOptions& globals) {
  if (globals.store.empty()) return "dtrain";
  return "dtrain --store " + QuotePathForShell(globals.store);
}

std::string CommandFor(const GlobalOptions& globals,
                       const std::string& arguments) {
  return ProgramFor(globals) + " " + arguments;
}

Store OpenStoreToChange(const GlobalOptions& globals,
                        const std::vector<std::int64_t>& experiments) {
  const StoreLayout layout = FindStore(globals);
  {
    const Store reader = Store::OpenForReading(layout);
    for (const std::int64_t id : experiments) FindExperiment(reader, id);
  }
  return OpenStoreForWriting(layout, globals);
}

void RequireNoRunner(const Store& store, std::int64_t experiment,
                     const std::string& remedy) {
  const auto runner = RunnerLock::Holder(store.layout().RunnerLock(experiment));
  if (!runner) return;
  throw Error(ErrorKind::kStore, "experiment " + std::to_string(experiment) +
                                     " is run by " + RunnerText(*runner) +
                                     "; " + remedy);
}

std::optional<RunnerLock> LockExperiment(const Store& store,
                                         std::int64_t experiment) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(
      store.layout().Experiment(experiment), error);
  if (!std::filesystem::is_directory(status)) return std::nullopt;
  return RunnerLock::Acquire(store.layout().RunnerLock(experiment));
}

std::string RunnerText(const RunnerIdentity& runner) {
  if (runner.pid == 0) return "another process";
  return "process " + std::to_string(runner.pid) + " on " + runner.host;
}

}  // namespace dtrain
