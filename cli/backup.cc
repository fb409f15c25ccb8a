#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

struct BackupOptions : JsonOption {
  std::string file;
};

int Backup(const BackupOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const auto& layout = store.layout();
  std::error_code error;
  if (!std::filesystem::exists(layout.Database(), error)) {
    throw Error(
        ErrorKind::kNotFound,
        "store " + layout.root().string() +
            ": has no dtrain.db to back up; specify the store with --store");
  }
  const std::int64_t bytes = store.BackUp(options.file);
  nlohmann::json storages = nlohmann::json::array();
  std::string also;
  for (const std::string& storage : store.Storages()) {
    storages.push_back(store.StorageRoot(storage).string());
    also += ", " + storages.back().get<std::string>();
  }
  if (options.json) {
    PrintJson({{"file", std::filesystem::absolute(options.file).string()},
               {"bytes", bytes},
               {"store", layout.root().string()},
               {"checkpoint_storage", std::move(storages)}});
  } else {
    PrintNotice(globals,
                options.file + ": " + FormatBytes(bytes) +
                    ", verified; checkpoints, logs and contexts are not "
                    "included: also copy " +
                    layout.Experiments().string() + also);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpBackup(CLI::App& app) {
  auto options = std::make_shared<BackupOptions>();
  AddOption(app, "FILE", options->file, "File to write; must not exist")
      .Required()
      .IsPath();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes =
               "The copy contains all experiments, trials and metrics. It does "
               "not contain the files in the store's experiments/ directory: "
               "checkpoints, logs, contexts. Copy that directory as well, and "
               "the checkpoint_storage directories that the command prints.",
           .exits = {{kExitDone},
                     {kExitFailed, "FILE cannot be written"},
                     {kExitUsage, "FILE already exists"},
                     {kExitNotFound, "the store has no database"},
                     {kExitStore}},
           .examples = {{"Copy the database of the current store",
                         "dtrain backup dtrain-backup.db"},
                        {"Back up another store",
                         "dtrain --store /data/dtrain backup nightly.db"}}});
  return RunWith(Backup, options);
}

}  // namespace dtrain
