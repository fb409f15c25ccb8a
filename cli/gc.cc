#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/garbage.h"
#include "engine/app/stores.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

struct GcOptions : TableOptions {
  std::vector<std::string> experiments;
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

void Print(const std::vector<Garbage>& removed,
           const std::vector<std::int64_t>& skipped, const GcOptions& options,
           const GlobalOptions& globals) {
  std::int64_t bytes = 0;
  for (const Garbage& garbage : removed) bytes += garbage.bytes;
  for (const std::int64_t id : skipped) {
    Say(globals, "experiment " + std::to_string(id) +
                     " is running and was skipped; run gc again after it ends");
  }
  if (options.format() != Format::kText || !removed.empty()) {
    PrintListing(
        GarbageListing(), removed, options.format(), globals,
        {{"bytes", bytes}, {"dry_run", options.dry_run}, {"skipped", skipped}});
  }
  Say(globals, std::string(options.dry_run ? "would free " : "freed ") +
                   FormatBytes(bytes) + " (" + std::to_string(removed.size()) +
                   (removed.size() == 1 ? " item)" : " items)"));
}

int Gc(const GcOptions& options, const GlobalOptions& globals) {
  const auto ids = ParseExperimentIds(options.experiments);
  std::error_code error;
  const bool there =
      std::filesystem::exists(FindStore(globals).Database(), error);
  if (!there && ids.empty()) {
    // Without the database every file would look unreferenced.
    Print({}, {}, options, globals);
    return kExitDone;
  }
  Store store =
      options.dry_run ? OpenStore(globals) : OpenStoreToChange(globals, ids);
  GarbageCollection collection(store, options.dry_run);
  std::vector<std::int64_t> skipped;
  const auto collect = [&](const ExperimentRow& row) {
    if (!collection.Collect(row)) skipped.push_back(row.id);
  };
  for (const std::int64_t id : ids) collect(FindExperiment(store, id));
  if (ids.empty()) {
    for (const ExperimentRow& row : ListExperiments(store, true)) collect(row);
    collection.CollectDeleted();
    collection.CollectAbandoned();
  }
  for (const std::string& why : collection.PassedOver()) {
    Say(globals, "warning: " + why + "; nothing was removed there");
  }
  Print(collection.removed(), skipped, options, globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpGc(CLI::App& app) {
  auto options = std::make_shared<GcOptions>();
  AddOption(app, "EXP", options->experiments,
            "Experiment IDs; without any, the whole store");
  AddFlag(app, "--dry-run", options->dry_run,
          "List what would be deleted; delete nothing");
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.notes =
           "Deletes checkpoints of ended experiments that their checkpoint "
           "policy does not keep, working files of ended commands, and "
           "leftovers of crashes. Running experiments are skipped.",
       .exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
       .examples = {{"Show how much space can be freed", "dtrain gc --dry-run"},
                    {"Clean up after one experiment", "dtrain gc 3"}}});
  return RunWith(Gc, options);
}

}  // namespace dtrain
