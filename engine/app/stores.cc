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
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "engine/app/trial_files.h"
#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"
#include "engine/report/format.h"
#include "engine/run/points.h"
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
  if (trial.latest_checkpoint.empty()) FailNoCheckpoint(store, trial.id);
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

std::string ImportedText(const ExperimentDetail& experiment) {
  const auto origin = experiment.provenance.find(kImported);
  if (origin == experiment.provenance.end()) return "";
  return "experiment " + std::to_string(experiment.row.id) +
         " was imported from " + origin->value("name", "a file");
}

void RequireNotImported(const ExperimentDetail& experiment) {
  const std::string text = ImportedText(experiment);
  if (text.empty()) return;
  const std::string id = std::to_string(experiment.row.id);
  throw Error(ErrorKind::kUsage,
              text +
                  ", so it has no program to run; a new search begins with its "
                  "best trials by searcher.warm_start: [" +
                  id + "], and 'dtrain best " + id +
                  " --points' prints them as points");
}

void FailNoCheckpoint(const Store& store, TrialId trial) {
  const auto detail = store.Experiment(trial.experiment);
  if (detail) RequireNotImported(*detail);
  const bool saved_none =
      store.Checkpoints(trial.experiment, /*deleted=*/true, trial.number)
          .empty();
  if (saved_none && detail && IsCommand(ConfigFromJson(detail->config))) {
    throw Error(ErrorKind::kNotFound,
                "trial " + ToString(trial) +
                    " has no checkpoint: its program saved none, in Python "
                    "'with trial.checkpoint() as path:' does (docs/python.md)" +
                    TrialFilesRemark(store, trial, "dtrain"));
  }
  throw Error(
      ErrorKind::kNotFound,
      "trial " + ToString(trial) + " has no checkpoint; 'dtrain checkpoints " +
          std::to_string(trial.experiment) +
          "' lists those of all trials; checkpoint_storage.save_trial_best in "
          "the YAML keeps the best one of each");
}

CheckpointRow FindLatestCheckpoint(const Store& store, const Target& target) {
  const TrialRow trial = FindOnlyTrial(store, target);
  if (!trial.latest_checkpoint.empty()) {
    return FindCheckpoint(store, trial.latest_checkpoint);
  }
  FailNoCheckpoint(store, trial.id);
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

void RequireOneMetric(const std::vector<ExperimentRow>& experiments) {
  for (const ExperimentRow& row : experiments) {
    const ExperimentRow& first = experiments.front();
    if (row.metric == first.metric &&
        row.smaller_is_better == first.smaller_is_better) {
      continue;
    }
    const auto text = [](const ExperimentRow& one) {
      return "experiment " + std::to_string(one.id) +
             (one.smaller_is_better ? " minimizes " : " maximizes ") +
             one.metric;
    };
    throw Error(ErrorKind::kUsage,
                text(first) + ", " + text(row) +
                    "; give experiments with one metric and direction");
  }
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

std::string BestPointText(const Store& store, const ExperimentRow& experiment,
                          const std::vector<TrialRow>& trials) {
  if (trials.empty() || trials.front().point == 0) return "";
  const auto detail = store.Experiment(experiment.id);
  if (!detail) return "";
  const auto points = ListPoints(trials, *detail);
  const PointRow* best = FindBestPoint(points, *detail);
  return best == nullptr ? "" : PointText(*best, ReadRepeats(detail->config));
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

// ---- Arguments that name experiments, trials and sources of weights. Numbers
// are taken as they are, without a look into the store. A name that several
// experiments have, or that is also `last` or a range, is an error: the user
// must give the number.

namespace {

constexpr std::string_view kLast = "last";

// Parses the whole of `text` as a positive integer.
std::optional<std::int64_t> Positive(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end && value > 0;
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<Target> Numbers(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto experiment = Positive(text.substr(0, dot));
  if (!experiment) return std::nullopt;
  if (dot == std::string_view::npos) return Target{.experiment = *experiment};
  const auto trial = Positive(text.substr(dot + 1));
  if (!trial) return std::nullopt;
  return Target{.experiment = *experiment, .trial = trial};
}

// The text before the last dot and the number of a trial after it.
std::optional<std::pair<std::string, std::int64_t>> SplitTrial(
    const std::string& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  const auto trial = Positive(std::string_view(text).substr(dot + 1));
  if (!trial) return std::nullopt;
  return std::pair(text.substr(0, dot), *trial);
}

[[noreturn]] void FailForm(const std::string& text) {
  throw Error(
      ErrorKind::kUsage,
      "'" + text +
          "' is not a valid ID; expected an experiment (3) or trial (3.7)");
}

// The experiments of a store by number and name. Read once, and only where an
// argument is not a number.
class ExperimentNames {
 public:
  explicit ExperimentNames(const Store& store)
      : store_(store), rows_(store.Experiments({.archived = true})) {}

  std::optional<std::int64_t> Last() const {
    if (rows_.empty()) return std::nullopt;
    return rows_.back().id;
  }

  std::vector<std::int64_t> Between(std::int64_t first,
                                    std::int64_t last) const {
    std::vector<std::int64_t> ids;
    for (const ExperimentRow& row : rows_) {
      if (row.id >= first && row.id <= last) ids.push_back(row.id);
    }
    return ids;
  }

  std::vector<std::int64_t> Named(const std::string& name) const {
    std::vector<std::int64_t> ids;
    for (const ExperimentRow& row : rows_) {
      if (row.name == name) ids.push_back(row.id);
    }
    return ids;
  }

  [[noreturn]] void FailUnknown(const std::string& text) const {
    constexpr std::size_t kMaxNames = 10;
    std::vector<std::string> names;
    for (const ExperimentRow& row : rows_) {
      if (std::ranges::count(names, row.name) == 0) names.push_back(row.name);
    }
    const std::string guess = DidYouMean(text, names);
    std::ranges::reverse(names);  // the newest first
    if (names.size() > kMaxNames) {
      names.resize(kMaxNames);
      names.emplace_back("...");
    }
    throw Error(ErrorKind::kNotFound,
                "no experiment is named '" + text + "' in " +
                    store_.layout().root().string() + guess +
                    (names.empty() ? "" : "; names: " + Join(names, ", ")) +
                    "; 'dtrain list -a' lists all");
  }

 private:
  const Store& store_;
  std::vector<ExperimentRow> rows_;
};

std::vector<std::string> Texts(const std::vector<std::int64_t>& ids) {
  std::vector<std::string> texts;
  for (const std::int64_t id : ids) texts.push_back(std::to_string(id));
  return texts;
}

// Refuses a word that another experiment has as its name.
void RequireNotName(const std::string& word,
                    const std::vector<std::int64_t>& meant,
                    const ExperimentNames& names) {
  for (const std::int64_t id : names.Named(word)) {
    if (std::ranges::count(meant, id) > 0) continue;
    throw Error(ErrorKind::kUsage, "'" + word + "' is experiment " +
                                       Join(Texts(meant), ", ") +
                                       " and also the name of experiment " +
                                       std::to_string(id) + "; give a number");
  }
}

// Returns the experiments of a range "3-7"; nothing for another text.
std::optional<std::vector<std::int64_t>> FindRange(
    const std::string& text, const ExperimentNames& names) {
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto first = Positive(std::string_view(text).substr(0, dash));
  const auto last = Positive(std::string_view(text).substr(dash + 1));
  if (!first || !last) return std::nullopt;
  if (*first > *last) {
    throw Error(ErrorKind::kUsage, "'" + text +
                                       "' is not a range; write the smaller "
                                       "number first: " +
                                       std::to_string(*last) + "-" +
                                       std::to_string(*first));
  }
  auto ids = names.Between(*first, *last);
  if (ids.empty()) {
    throw Error(ErrorKind::kNotFound,
                "no experiment in the range " + text +
                    " exists; 'dtrain list -a' lists all");
  }
  RequireNotName(text, ids, names);
  return ids;
}

// Returns the experiment that `last` or a name means; nothing if no experiment
// has the name.
std::optional<std::int64_t> FindName(const std::string& text,
                                     const ExperimentNames& names) {
  if (text == kLast) {
    const auto last = names.Last();
    if (last) RequireNotName(text, {*last}, names);
    return last;
  }
  const auto ids = names.Named(text);
  if (ids.empty()) return std::nullopt;
  if (ids.size() == 1) return ids.front();
  throw Error(ErrorKind::kUsage, "several experiments are named '" + text +
                                     "': " + Join(Texts(ids), ", ") +
                                     "; give a number");
}

// Returns the experiment or trial of a word or name; nothing if there is none.
std::optional<Target> FindWord(const std::string& text,
                               const ExperimentNames& names) {
  if (const auto id = FindName(text, names)) return Target{.experiment = *id};
  const auto split = SplitTrial(text);
  if (!split) return std::nullopt;
  const auto id = FindName(split->first, names);
  if (!id) return std::nullopt;
  return Target{.experiment = *id, .trial = split->second};
}

std::vector<Target> Resolve(const Store& store, const std::string& text) {
  if (const auto numbers = Numbers(text)) return {*numbers};
  const ExperimentNames names(store);
  if (const auto range = FindRange(text, names)) {
    std::vector<Target> targets;
    for (const std::int64_t id : *range) targets.push_back({.experiment = id});
    return targets;
  }
  if (const auto target = FindWord(text, names)) return {*target};
  const bool is_number =
      text.empty() || std::string_view("0123456789-+.").find(text.front()) !=
                          std::string_view::npos;
  if (is_number) FailForm(text);
  names.FailUnknown(text);
}

[[noreturn]] void FailTrial(const std::string& text) {
  throw Error(
      ErrorKind::kUsage,
      "'" + text +
          "' is not a valid experiment ID; expected a number such as 3");
}

// True if `text` has only characters of a UUID.
bool MayStartUuid(const std::string& text) {
  return text.find_first_not_of("0123456789abcdefABCDEF-") == std::string::npos;
}

// True if a checkpoint's UUID starts with `text`.
bool StartsCheckpoint(const Store& store, const std::string& text) {
  if (!MayStartUuid(text) || text.size() < 4) return false;
  try {
    (void)store.CheckpointByPrefix(text);
    return true;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage;  // several start with it
  }
}

}  // namespace

std::string ToString(const Target& target) {
  return std::to_string(target.experiment) +
         (target.trial ? "." + std::to_string(*target.trial) : "");
}

Target ParseTarget(const std::string& text) {
  const auto target = Numbers(text);
  if (!target) FailForm(text);
  return *target;
}

Target ResolveTarget(const Store& store, const std::string& text) {
  const auto targets = Resolve(store, text);
  if (targets.size() == 1) return targets.front();
  throw Error(ErrorKind::kUsage, "'" + text + "' names " +
                                     std::to_string(targets.size()) +
                                     " experiments; expected one");
}

std::int64_t ResolveExperiment(const Store& store, const std::string& text) {
  const Target target = ResolveTarget(store, text);
  if (target.trial) FailTrial(text);
  return target.experiment;
}

TrialId ResolveTrial(const Store& store, const std::string& text) {
  const Target target = ResolveTarget(store, text);
  if (target.trial) return {target.experiment, *target.trial};
  throw Error(ErrorKind::kUsage,
              "'" + text +
                  "' is an experiment; give one of its trials, such as " +
                  text + ".1");
}

std::vector<Target> ResolveTargets(const Store& store,
                                   const std::vector<std::string>& words) {
  std::vector<Target> targets;
  for (const std::string& word : words) {
    for (const Target& target : Resolve(store, word)) targets.push_back(target);
  }
  return targets;
}

std::vector<std::int64_t> ResolveExperiments(
    const Store& store, const std::vector<std::string>& words) {
  std::vector<std::int64_t> ids;
  for (const std::string& word : words) {
    for (const Target& target : Resolve(store, word)) {
      if (target.trial) FailTrial(word);
      if (std::ranges::count(ids, target.experiment) == 0) {
        ids.push_back(target.experiment);
      }
    }
  }
  return ids;
}

std::optional<Target> ResolveSource(const Store& store,
                                    const std::string& text) {
  if (const auto numbers = Numbers(text)) {
    // At least 4 digits are the start of a UUID where there is no such
    // experiment.
    if (numbers->trial || text.size() < 4) return numbers;
    if (text.front() != '0' &&
        !store.Experiments({.archived = true, .id = numbers->experiment})
             .empty()) {
      return numbers;
    }
    return std::nullopt;
  }
  if (StartsCheckpoint(store, text)) return std::nullopt;
  const bool has_dot = text.find('.') != std::string::npos;
  if (has_dot) return ResolveTarget(store, text);
  const ExperimentNames names(store);
  const auto target = FindWord(text, names);
  if (!target && !MayStartUuid(text)) names.FailUnknown(text);
  return target;
}

}  // namespace dtrain
