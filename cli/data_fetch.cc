#include <iostream>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/data.h"
#include "cli/exit_code.h"
#include "cli/fetch_display.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/address.h"
#include "engine/fetch/fetch_program.h"
#include "engine/os/signals.h"

namespace dtrain {
namespace {

struct DataFetchOptions : JsonOption {
  std::vector<std::string> names;
  std::string from;
  std::string to;
  bool force = false;
};

// All that can be wrong with what was asked for, before anything is fetched.
FetchOptions Checked(const DataFetchOptions& options) {
  FetchOptions fetch{.places = DataPlaces(options.to), .force = options.force};
  if (!options.from.empty()) fetch.from = SourceAddress(options.from);
  return fetch;
}

nlohmann::json ResultJson(const DataSet& set, const FetchResult& result) {
  return {{"name", set.name},
          {"directory", result.found.directory.string()},
          {"fetched", result.end == FetchResult::End::kFetched},
          {"files", result.found.files},
          {"bytes", result.found.bytes}};
}

void PrintResult(const DataSet& set, const FetchResult& result) {
  const bool fetched = result.end == FetchResult::End::kFetched;
  std::cout << EscapeForTerminal(
                   std::string(set.name) + ": " +
                   (fetched ? "downloaded to " : "already present in ") +
                   result.found.directory.string() + " (" +
                   std::to_string(result.found.files) +
                   (result.found.files == 1 ? " file, " : " files, ") +
                   FormatBytes(result.found.bytes) + ")")
            << '\n'
            << std::flush;
}

int DataFetch(const DataFetchOptions& options, const GlobalOptions& globals) {
  FetchOptions fetch = Checked(options);
  std::vector<const DataSet*> sets;
  for (const std::string& name : options.names) {
    sets.push_back(&FindDataSet(name));
  }
  SignalWatch signals;
  int signal = 0;
  FetchDisplay display(globals);
  fetch.progress = [&](const FetchProgress& progress) {
    display.Show(progress.file, progress.bytes, progress.expected);
  };
  fetch.say = [&](const std::string& text) { display.Say(text); };
  fetch.stop = [&] {
    if (signal == 0) signal = signals.Read();
    return signal != 0;
  };
  nlohmann::json results = nlohmann::json::array();
  for (const DataSet* set : sets) {
    const FetchResult result = FetchInProgram(*set, fetch);
    if (result.end == FetchResult::End::kStopped) {
      display.Say(std::string(set->name) +
                  ": interrupted; the partial download is kept, run the same "
                  "command again to resume");
      return 128 + signal;
    }
    // A line of the display does not stay before it.
    display.Clear();
    results.push_back(ResultJson(*set, result));
    if (!options.json) PrintResult(*set, result);
  }
  if (options.json) PrintJson({{"sets", std::move(results)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpDataFetch(CLI::App& app) {
  auto options = std::make_shared<DataFetchOptions>();
  AddOption(app, "NAME", options->names,
            "Names of data sets, from 'dtrain data list'")
      .Required();
  AddOption(app, "--from", options->from,
            "Download from this mirror, or copy from this directory")
      .TypeName("URL|DIR")
      .IsPath();
  AddOption(app, "--to", options->to,
            "Data directory (default: $DTRAIN_DATA, else ~/.cache/dtrain/data)")
      .TypeName("DIR")
      .IsPath();
  AddFlag(app, "--force", options->force,
          "Download again even if present and valid");
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes = "Interrupted downloads are resumed, up to five times "
                    "automatically, then by the next call.",
           .exits = {{kExitDone},
                     {kExitFailed,
                      "a download failed or does not match its checksum"},
                     {kExitUsage},
                     {kExitNotFound, "no such data set"},
                     {130, "interrupted; run the command again to resume"}},
           .examples = {
               {"Download two data sets", "dtrain data fetch mnist cifar10"},
               {"Copy a data set from a shared directory",
                "dtrain data fetch mnist --from /mnt/datasets --to /data"}}});
  return RunWith(DataFetch, options);
}

}  // namespace dtrain
