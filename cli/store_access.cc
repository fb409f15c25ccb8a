#include "cli/store_access.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/run/runner_lock.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr char kStoreName[] = ".dtrain";

fs::path Absolute(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) {
    throw Error(ErrorKind::kStore,
                "the working directory is gone; change to one that exists, or "
                "give an absolute --store");
  }
  return absolute.lexically_normal();
}

// The whole of `text` as a positive integer.
std::optional<std::int64_t> Positive(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end && value > 0;
  return whole ? std::optional(value) : std::nullopt;
}

bool IsLive(State state) {
  return state == State::kRunning || state == State::kPending;
}

void DeriveState(const StoreLayout& layout, ExperimentRow& row) {
  if (!IsLive(row.state)) return;
  if (RunnerLock::Holder(layout.RunnerLock(row.id))) return;
  row.state = State::kInterrupted;
}

// Its process, too, is gone with the runner.
void DeriveState(const ExperimentRow& experiment, TrialRow& trial) {
  if (experiment.state != State::kInterrupted || !IsLive(trial.state)) return;
  trial.state = State::kInterrupted;
  trial.pid = 0;
}

[[noreturn]] void NoExperiment(const Store& store, std::int64_t id) {
  throw Error(ErrorKind::kNotFound,
              "no experiment " + std::to_string(id) + " in " +
                  store.layout().root().string() +
                  "; 'dtrain list -a' shows all there are");
}

}  // namespace

StoreLayout FindStore(const GlobalOptions& globals) {
  if (!globals.store.empty()) return StoreLayout(Absolute(globals.store));
  const char* given = std::getenv("DTRAIN_STORE");
  if (given != nullptr && *given != '\0') return StoreLayout(Absolute(given));
  const fs::path here = Absolute(".");
  for (fs::path directory = here;; directory = directory.parent_path()) {
    std::error_code ignored;
    const fs::path candidate = directory / kStoreName;
    if (fs::is_directory(candidate, ignored)) {
      return StoreLayout(candidate.lexically_normal());
    }
    if (directory == directory.parent_path()) break;
  }
  return StoreLayout((here / kStoreName).lexically_normal());
}

Store OpenStore(const GlobalOptions& globals) {
  return Store::OpenForReading(FindStore(globals));
}

Store OpenStoreForWriting(const StoreLayout& layout,
                          const GlobalOptions& globals) {
  const FileSystem system = FileSystemOf(layout.root());
  if (system.kind == FileSystem::Kind::kPerhaps && !globals.allow_network_fs) {
    Say(globals, "warning: store " + layout.root().string() + " lies on " +
                     system.name +
                     "; if that leads to a network, let only this machine "
                     "write to it (--allow-network-fs says that you know)");
  }
  return Store::OpenForWriting(layout, globals.allow_network_fs
                                           ? NetworkWrites::kAllowed
                                           : NetworkWrites::kRefused);
}

Target ParseTarget(const std::string& text) {
  const std::size_t dot = text.find('.');
  const auto experiment = Positive(std::string_view(text).substr(0, dot));
  Target target{.experiment = experiment.value_or(0)};
  if (dot != std::string::npos) {
    target.trial = Positive(std::string_view(text).substr(dot + 1));
  }
  if (!experiment || (dot != std::string::npos && !target.trial)) {
    throw Error(ErrorKind::kUsage,
                "'" + text +
                    "' is no id; experiments are numbers such as 3, their "
                    "trials 3.7 ('dtrain list' shows them)");
  }
  return target;
}

std::int64_t ParseExperimentId(const std::string& text) {
  const auto id = Positive(text);
  if (!id) {
    throw Error(ErrorKind::kUsage,
                "'" + text +
                    "' is no experiment; they are numbers such as 3 ('dtrain "
                    "list' shows them)");
  }
  return *id;
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
                  "' shows those there are");
}

std::vector<ExperimentRow> ListExperiments(const Store& store, bool archived) {
  auto rows = store.Experiments({.archived = archived});
  for (ExperimentRow& row : rows) DeriveState(store.layout(), row);
  return rows;
}

std::vector<TrialRow> ListTrials(const Store& store,
                                 const ExperimentRow& experiment) {
  auto trials = store.Trials(experiment.id);
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
                    std::to_string(id.experiment) + "' shows those it has");
  }
  DeriveState(experiment, *trial);
  return *std::move(trial);
}

std::string ProgramFor(const GlobalOptions& globals) {
  if (globals.store.empty()) return "dtrain";
  const bool plain = globals.store.find_first_of(" \t'\"$`\\;&|<>()*?[]#~") ==
                     std::string::npos;
  return "dtrain --store " +
         (plain ? globals.store : "'" + globals.store + "'");
}

std::string CommandFor(const GlobalOptions& globals,
                       const std::string& arguments) {
  return ProgramFor(globals) + " " + arguments;
}

}  // namespace dtrain
