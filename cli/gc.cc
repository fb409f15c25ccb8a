#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/garbage.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/store_change.h"
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
                     " is at work and was left alone; collect again when it "
                     "has ended");
  }
  if (options.format() != Format::kText || !removed.empty()) {
    PrintListing(
        GarbageListing(), removed, options.format(), globals,
        {{"bytes", bytes}, {"dry_run", options.dry_run}, {"skipped", skipped}});
  }
  Say(globals, std::string(options.dry_run ? "would free " : "freed ") +
                   FormatBytes(bytes) + " in " +
                   std::to_string(removed.size()) + " places");
}

int Gc(const GcOptions& options, const GlobalOptions& globals) {
  const auto ids = ParseExperimentIds(options.experiments);
  std::error_code error;
  const bool there =
      std::filesystem::exists(FindStore(globals).Database(), error);
  if (!there && ids.empty()) {
    // Without its record everything would look like a leftover.
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
  AddOption(app, "EXP", options->experiments, "Experiments; none: all");
  AddFlag(app, "--dry-run", options->dry_run, "Only say what would go");
  AddTableOptions(app, *options);
  return RunWith(Gc, options);
}

}  // namespace dtrain
