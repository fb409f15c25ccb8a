#include <memory>

#include "cli/checkpoint_check.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

struct CheckpointDeleteOptions : JsonOption {
  std::vector<std::string> uuids;
};

// An unfinished trial goes on from its latest one.
void RequireUnused(const Store& store, const CheckpointRow& row) {
  if (row.state == "DELETED") {
    throw Error(
        ErrorKind::kNotFound,
        "checkpoint " + row.uuid + " is already deleted; 'dtrain checkpoints " +
            std::to_string(row.trial.experiment) + "' lists the existing ones");
  }
  RequireStorageThere(store, row);
  if (!row.storage.empty()) {
    const auto why = WhyNotOurs(store, store.StorageRoot(row.storage));
    if (!why.empty()) throw Error(ErrorKind::kStore, why);
  }
  const auto trial = store.Trial(row.trial);
  if (!trial || IsFinal(trial->state)) return;
  if (trial->latest_checkpoint != row.uuid) return;
  const std::string id = std::to_string(row.trial.experiment);
  throw Error(ErrorKind::kFailed,
              "checkpoint " + row.uuid + " is the latest checkpoint of trial " +
                  ToString(row.trial) +
                  ", which resumes from it; 'dtrain cancel " + id +
                  "' ends the experiment; then delete the checkpoint");
}

int Delete(const CheckpointDeleteOptions& options,
           const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  std::vector<CheckpointRow> rows;
  {
    // A store that is not there is not made.
    const Store reader = Store::OpenForReading(layout);
    for (const std::string& uuid : options.uuids) {
      rows.push_back(reader.CheckpointByPrefix(uuid));
      RequireUnused(reader, rows.back());
    }
  }
  Store store = OpenStoreForWriting(layout, globals);
  store.Write([&](StoreWriter& writer) {
    for (const CheckpointRow& row : rows) {
      RequireUnused(store, row);
      writer.SetCheckpointState(row.uuid, "DELETED");
    }
  });
  nlohmann::json array = nlohmann::json::array();
  for (const CheckpointRow& row : rows) {
    const auto bytes = RemoveTree(store.PathOf(row));
    array.push_back({{"uuid", row.uuid}, {"bytes", bytes}});
    Say(globals, "checkpoint " + row.uuid + " is deleted, " +
                     FormatBytes(bytes) + " freed");
  }
  if (options.json) PrintJson({{"deleted", std::move(array)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpCheckpointDelete(CLI::App& app) {
  auto options = std::make_shared<CheckpointDeleteOptions>();
  AddOption(app, "UUID", options->uuids,
            "Checkpoint IDs, or their first 4 or more characters")
      .Required();
  AddJsonOption(app, *options);
  SetHelp(app, {.notes = "The latest checkpoint of an unfinished trial is "
                         "never deleted, because the trial resumes from it.",
                .exits = {{kExitDone},
                          {kExitFailed, "a trial still needs the checkpoint"},
                          {kExitUsage},
                          {kExitNotFound},
                          {kExitStore}},
                .examples = {{"Delete one checkpoint",
                              "dtrain checkpoint delete 0a1b2c3d"},
                             {"List the checkpoints of an experiment first",
                              "dtrain checkpoints 3"}}});
  return RunWith(Delete, options);
}

}  // namespace dtrain
