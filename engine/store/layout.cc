#include "engine/store/layout.h"

namespace dtrain {

std::filesystem::path StoreLayout::Experiment(std::int64_t experiment) const {
  return Experiments() / std::to_string(experiment);
}

std::filesystem::path StoreLayout::RunnerLock(std::int64_t experiment) const {
  return Experiment(experiment) / "runner.lock";
}

std::filesystem::path StoreLayout::TrialsLock(std::int64_t experiment) const {
  return Experiment(experiment) / "trials.lock";
}

std::filesystem::path StoreLayout::WorkerKey(std::int64_t experiment) const {
  return Experiment(experiment) / "worker.key";
}

std::filesystem::path StoreLayout::WorkerProbe(std::int64_t experiment) const {
  return Experiment(experiment) / "worker.probe";
}

std::filesystem::path StoreLayout::WorkerTable(std::int64_t experiment) const {
  return Experiment(experiment) / "workers.jsonl";
}

std::filesystem::path StoreLayout::RunnerLog(std::int64_t experiment) const {
  return Experiment(experiment) / "runner.log";
}

std::filesystem::path StoreLayout::Context(std::int64_t experiment) const {
  return Experiment(experiment) / "context";
}

std::filesystem::path StoreLayout::ContextListFile(
    std::int64_t experiment) const {
  return Experiment(experiment) / "context.list";
}

std::filesystem::path StoreLayout::Sources(std::int64_t experiment) const {
  return Experiment(experiment) / "sources";
}

std::filesystem::path StoreLayout::Source(std::int64_t experiment,
                                          const std::string& uuid) const {
  return Sources(experiment) / uuid;
}

std::filesystem::path StoreLayout::Trials(std::int64_t experiment) const {
  return Experiment(experiment) / "trials";
}

std::filesystem::path StoreLayout::Trial(TrialId trial) const {
  return Trials(trial.experiment) / std::to_string(trial.number);
}

std::filesystem::path StoreLayout::WorkingTree(TrialId trial) const {
  return Trial(trial) / "work";
}

std::filesystem::path StoreLayout::TrialLog(TrialId trial) const {
  return Trial(trial) / "log";
}

std::filesystem::path StoreLayout::Scratch(TrialId trial) const {
  return Trial(trial) / "scratch";
}

std::filesystem::path StoreLayout::Checkpoints(TrialId trial) const {
  return Trial(trial) / "checkpoints";
}

std::filesystem::path StoreLayout::Checkpoint(TrialId trial,
                                              const std::string& uuid) const {
  return Checkpoints(trial) / uuid;
}

}  // namespace dtrain
