#include <iostream>
#include <memory>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/run/runner_lock.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

struct DeleteOptions : JsonOption {
  std::vector<std::string> experiments;
  bool yes = false;
};

constexpr char kRemedy[] = "pause or cancel it first, then delete it";

// Returns the directory of the experiment's checkpoints outside of the store,
// or an empty path.
std::filesystem::path StorageDirectory(const Store& store, std::int64_t id) {
  const auto detail = store.Experiment(id);
  if (!detail || detail->storage.empty()) return {};
  return store.StorageRoot(detail->storage) / std::to_string(id);
}

std::int64_t ExperimentBytes(const Store& store, std::int64_t id) {
  const auto storage = StorageDirectory(store, id);
  return FreeableBytes(store.layout().Experiment(id)) +
         (storage.empty() ? 0 : FreeableBytes(storage));
}

std::int64_t RemoveStorage(const Store& store,
                           const std::filesystem::path& storage,
                           const GlobalOptions& globals) {
  if (storage.empty()) return 0;
  if (const auto why = StorageOwnerProblem(store, storage.parent_path());
      !why.empty()) {
    PrintNotice(globals, "warning: " + why + "; nothing was deleted there");
    return 0;
  }
  if (IsOwnDirectory(storage.parent_path())) return RemoveTree(storage);
  PrintNotice(globals,
              "warning: checkpoints in " + storage.string() +
                  " were not deleted: the directory does not exist or is not "
                  "yours; run 'dtrain gc' when it is available");
  return 0;
}

// Asks the user at the terminal for confirmation.
bool Confirm(const Store& store, const std::vector<std::int64_t>& ids) {
  if (isatty(STDIN_FILENO) == 0) {
    throw Error(ErrorKind::kUsage,
                "delete: cannot ask for confirmation, stdin is not a terminal; "
                "use --yes to delete without confirmation");
  }
  for (const std::int64_t id : ids) {
    const ExperimentRow row = FindExperiment(store, id);
    // A part of the question, so --quiet does not hide it.
    std::cerr << "dtrain: "
              << EscapeForTerminal(
                     "experiment " + std::to_string(id) + " '" + row.name +
                     "', " + std::string(StateName(row.state)) +
                     ", trials: " + std::to_string(row.trials) + ", " +
                     FormatBytes(ExperimentBytes(store, id)))
              << '\n';
  }
  std::cerr << "delete with all metrics, logs and checkpoints? [y/N] "
            << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// Deletes rows first: `gc` finds files that remain after a crash.
std::int64_t DeleteOne(Store& store, std::int64_t id,
                       const GlobalOptions& globals) {
  const auto lock = LockExperiment(store, id);
  const auto storage = StorageDirectory(store, id);
  store.Write([&](StoreWriter& writer) { writer.DeleteExperiment(id); });
  return RemoveTree(store.layout().Experiment(id)) +
         RemoveStorage(store, storage, globals);
}

int Delete(const DeleteOptions& options, const GlobalOptions& globals) {
  const auto ids = ResolveExperiments(OpenStore(globals), options.experiments);
  Store store = OpenStoreToChange(globals, ids);
  for (const std::int64_t id : ids) RequireNoRunner(store, id, kRemedy);
  if (!options.yes && !Confirm(store, ids)) {
    PrintNotice(globals, "nothing was deleted");
    return kExitFailed;
  }
  nlohmann::json array = nlohmann::json::array();
  for (const std::int64_t id : ids) {
    const std::int64_t bytes = DeleteOne(store, id, globals);
    store.MaybeCheckpointWal();
    array.push_back({{"experiment", id}, {"bytes", bytes}});
    PrintNotice(globals, "experiment " + std::to_string(id) + " is deleted, " +
                             FormatBytes(bytes) + " freed");
  }
  if (options.json) PrintJson({{"deleted", std::move(array)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpDelete(CLI::App& app) {
  auto options = std::make_shared<DeleteOptions>();
  AddOption(app, "EXP", options->experiments, "Experiment IDs (3)").Required();
  AddFlag(app, "-y,--yes", options->yes,
          "Do not ask for confirmation; required without a terminal");
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone},
                 {kExitFailed, "not confirmed"},
                 {kExitUsage},
                 {kExitNotFound},
                 {kExitStore,
                  "an experiment is running, or the store is not accessible"}},
       .examples = {
           {"Delete two experiments after a question", "dtrain delete 3 4"},
           {"Delete without a question, in a script",
            "dtrain delete 3 --yes"}}});
  return RunWith(Delete, options);
}

}  // namespace dtrain
