// Deletes what no experiment needs. GarbageCollection decides and deletes; this
// file chooses the experiments and reports. With experiments named, only theirs
// is collected; otherwise also directories of deleted experiments and what
// crashes abandoned. Without a database nothing is deleted, because then every
// file would look like garbage.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/disk_use.h"
#include "engine/app/garbage.h"
#include "engine/app/stores.h"
#include "engine/base/rounding.h"
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
void Print(const std::vector<Garbage>& removed,
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
    nlohmann::json document = {
        {"bytes", bytes}, {"dry_run", options.dry_run}, {"skipped", skipped}};
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
  if (kept) PrintKeptUse(*kept, globals);
}

int Gc(const GcOptions& options, const GlobalOptions& globals) {
  std::vector<std::int64_t> ids;
  if (!options.experiments.empty()) {
    ids = ResolveExperiments(OpenStore(globals), options.experiments);
  }
  std::error_code error;
  const bool there =
      std::filesystem::exists(FindStore(globals).Database(), error);
  if (!there && ids.empty()) {
    // Without the database every file would look unreferenced.
    Print({}, {}, std::nullopt, options, globals);
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
  Print(collection.removed(), skipped, kept, options, globals);
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
