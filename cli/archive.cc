#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"

namespace dtrain {
namespace {

struct ArchiveOptions : JsonOption {
  std::vector<std::string> experiments;
};

int Archive(const ArchiveOptions& options, bool archived,
            const GlobalOptions& globals) {
  const auto ids = ResolveExperiments(OpenStore(globals), options.experiments);
  Store store = OpenStoreToChange(globals, ids);
  for (const std::int64_t id : ids) {
    // Running experiments must stay visible.
    if (archived) {
      RequireNoRunner(store, id, "pause it first, or archive it after it ends");
    }
  }
  store.Write([&](StoreWriter& writer) {
    for (const std::int64_t id : ids) writer.SetArchived(id, archived);
  });
  nlohmann::json array = nlohmann::json::array();
  for (const std::int64_t id : ids) {
    array.push_back({{"experiment", id}, {"archived", archived}});
    PrintNotice(globals,
                "experiment " + std::to_string(id) +
                    (archived ? " is archived; 'dtrain list -a' shows it"
                              : " is listed again"));
  }
  if (options.json) PrintJson({{"experiments", std::move(array)}});
  return kExitDone;
}

CommandRun SetUp(CLI::App& app, bool archived) {
  auto options = std::make_shared<ArchiveOptions>();
  AddOption(app, "EXP", options->experiments, "Experiment IDs (3)").Required();
  AddJsonOption(app, *options);
  const std::vector<HelpExample> examples =
      archived
          ? std::vector<HelpExample>{{"Hide two experiments",
                                      "dtrain archive 3 4"},
                                     {"Show all experiments, archived ones too",
                                      "dtrain list -a"}}
          : std::vector<HelpExample>{
                {"Show an experiment in 'list' again", "dtrain unarchive 3"},
                {"Find archived experiments", "dtrain list -a"}};
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
           .examples = examples});
  return [options, archived](const GlobalOptions& globals) {
    return Archive(*options, archived, globals);
  };
}

}  // namespace

CommandRun SetUpArchive(CLI::App& app) { return SetUp(app, /*archived=*/true); }

CommandRun SetUpUnarchive(CLI::App& app) {
  return SetUp(app, /*archived=*/false);
}

}  // namespace dtrain
