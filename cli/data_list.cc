#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/data.h"
#include "cli/exit_code.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "engine/base/text.h"
#include "engine/fetch/data_sets.h"

namespace dtrain {
namespace {

struct DataListOptions : TableOptions {
  std::string to;
};

struct ListedSet {
  const DataSet* set = nullptr;
  FoundSet found;
};

nlohmann::json DirectoryJson(const FoundSet& found) {
  if (found.directory.empty()) return nullptr;
  return found.directory.string();
}

Listing<ListedSet> SetListing() {
  return {.name = "sets",
          .columns = {{.name = "name"},
                      {.name = "size", .right = true},
                      {.name = "state"},
                      {.name = "where", .elastic = true, .least = 20},
                      {.name = "summary", .elastic = true, .optional = true}},
          .json = [](const ListedSet& row) -> nlohmann::json {
            return {{"name", row.set->name},
                    {"summary", row.set->summary},
                    {"bytes", DownloadBytes(*row.set)},
                    {"state", StateName(row.found.state)},
                    {"directory", DirectoryJson(row.found)}};
          },
          .cells = [](const ListedSet& row) -> std::vector<Cell> {
            const std::int64_t bytes = DownloadBytes(*row.set);
            const std::string state(StateName(row.found.state));
            const std::string where = row.found.directory.string();
            const Tone tone = row.found.Complete() ? Tone::kGood
                              : row.found.state == SetState::kMissing
                                  ? Tone::kDim
                                  : Tone::kWarning;
            return {std::string(row.set->name),
                    Cell(FormatBytes(bytes), std::to_string(bytes)),
                    Cell(state, state, tone),
                    Cell(where.empty() ? "-" : where, where),
                    std::string(row.set->summary)};
          }};
}

int DataList(const DataListOptions& options, const GlobalOptions& globals) {
  const auto places = DataPlaces(options.to);
  std::vector<ListedSet> rows;
  for (const DataSet& set : DataSets()) {
    rows.push_back({.set = &set, .found = LocateSet(set, places)});
  }
  PrintListing(SetListing(), rows, options.format(), globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpDataList(CLI::App& app) {
  auto options = std::make_shared<DataListOptions>();
  AddOption(app, "--to", options->to, "Look only in this data directory")
      .TypeName("DIR")
      .IsPath();
  AddTableOptions(app, *options);
  SetHelp(app, {.exits = {{kExitDone}, {kExitUsage}},
                .examples = {{"List all data sets and where they are",
                              "dtrain data list"},
                             {"List those in a given directory",
                              "dtrain data list --to /data"}}});
  return RunWith(DataList, options);
}

}  // namespace dtrain
