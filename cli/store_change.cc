#include "cli/store_change.h"

#include <algorithm>
#include <filesystem>

#include "engine/base/error.h"

namespace dtrain {

std::vector<std::int64_t> ParseExperimentIds(
    const std::vector<std::string>& words) {
  std::vector<std::int64_t> ids;
  for (const std::string& word : words) {
    const std::int64_t id = ParseExperimentId(word);
    if (std::ranges::count(ids, id) == 0) ids.push_back(id);
  }
  return ids;
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
  return RunnerLock::Take(store.layout().RunnerLock(experiment));
}

std::string RunnerText(const RunnerIdentity& runner) {
  if (runner.pid == 0) return "another process";
  return "process " + std::to_string(runner.pid) + " on " + runner.host;
}

}  // namespace dtrain
