#include <algorithm>
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

struct DataVerifyOptions : TableOptions {
  std::vector<std::string> names;
  std::string to;
};

struct VerifiedSet {
  const DataSet* set = nullptr;
  FoundSet found;
};

bool IsBad(const VerifiedSet& row) {
  return row.found.state == SetState::kDamaged ||
         row.found.state == SetState::kPartial;
}

bool IsMissing(const VerifiedSet& row) {
  return row.found.state == SetState::kMissing;
}

// Those that are named, else all of which something is there.
std::vector<VerifiedSet> VerifySets(const DataVerifyOptions& options) {
  const auto places = DataPlaces(options.to);
  std::vector<const DataSet*> sets;
  for (const std::string& name : options.names) {
    sets.push_back(&FindDataSet(name));
  }
  if (options.names.empty()) {
    for (const DataSet& set : DataSets()) {
      const FoundSet found = LocateSet(set, places);
      if (!found.directory.empty()) sets.push_back(&set);
    }
  }
  std::vector<VerifiedSet> rows;
  for (const DataSet* set : sets) {
    rows.push_back({.set = set, .found = *VerifySet(*set, places, nullptr)});
  }
  return rows;
}

Tone ToneOf(const VerifiedSet& row) {
  if (IsBad(row) || IsMissing(row)) return Tone::kBad;
  return row.found.state == SetState::kGood ? Tone::kGood : Tone::kWarning;
}

Listing<VerifiedSet> VerifiedSetListing() {
  return {.name = "sets",
          .columns = {{.name = "name"},
                      {.name = "files", .right = true},
                      {.name = "bytes", .right = true},
                      {.name = "state"},
                      {.name = "where", .elastic = true, .least = 20},
                      {.name = "problem", .elastic = true, .least = 20}},
          .json = [](const VerifiedSet& row) -> nlohmann::json {
            nlohmann::json directory;
            nlohmann::json problem;
            if (!row.found.directory.empty()) {
              directory = row.found.directory.string();
            }
            if (!row.found.problem.empty()) problem = row.found.problem;
            return {{"name", row.set->name},
                    {"directory", std::move(directory)},
                    {"files", row.found.files},
                    {"bytes", row.found.bytes},
                    {"state", StateName(row.found.state)},
                    {"problem", std::move(problem)}};
          },
          .cells = [](const VerifiedSet& row) -> std::vector<Cell> {
            const std::string state(StateName(row.found.state));
            return {std::string(row.set->name),
                    std::to_string(row.found.files),
                    Cell(FormatBytes(row.found.bytes),
                         std::to_string(row.found.bytes)),
                    Cell(state, state, ToneOf(row)),
                    row.found.directory.string(),
                    row.found.problem};
          }};
}

int DataVerify(const DataVerifyOptions& options, const GlobalOptions& globals) {
  const std::vector<VerifiedSet> rows = VerifySets(options);
  PrintListing(VerifiedSetListing(), rows, options.format(), globals);
  const auto command = [&](const VerifiedSet& row) {
    return NamedCommand(
        "dtrain data fetch " + std::string(row.set->name) +
        (options.to.empty() ? "" : " --to " + QuotePathForShell(options.to)));
  };
  const auto bad = std::ranges::find_if(rows, IsBad);
  if (bad != rows.end()) {
    SayError(globals, std::to_string(std::ranges::count_if(rows, IsBad)) +
                          " of " + std::to_string(rows.size()) +
                          " sets are damaged or incomplete; " + command(*bad) +
                          " repairs the first");
    return kExitFailed;
  }
  const auto missing = std::ranges::find_if(rows, IsMissing);
  if (missing == rows.end()) return kExitDone;
  SayError(globals, std::string(missing->set->name) + ": is not downloaded; " +
                        command(*missing) + " downloads it");
  return kExitNotFound;
}

}  // namespace

CommandRun SetUpDataVerify(CLI::App& app) {
  auto options = std::make_shared<DataVerifyOptions>();
  AddOption(app, "NAME", options->names,
            "Names of data sets; without any, all downloaded ones");
  AddOption(app, "--to", options->to, "Look only in this data directory")
      .TypeName("DIR")
      .IsPath();
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone, "all files are intact"},
                 {kExitFailed, "a data set is damaged or incomplete"},
                 {kExitUsage},
                 {kExitNotFound, "a named data set is not downloaded"}},
       .examples = {{"Verify all downloaded data sets", "dtrain data verify"},
                    {"Verify one data set before a long run",
                     "dtrain data verify cifar10"}}});
  return RunWith(DataVerify, options);
}

}  // namespace dtrain
