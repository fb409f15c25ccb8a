// `dtrain export`: the tables of `trials --csv` and `metrics --csv` as files.

#include <array>
#include <filesystem>
#include <iostream>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/export_tables.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct TableExportOptions : JsonOption {
  std::vector<std::string> experiments;
  std::string to = "csv";
  std::string out = "export";
  bool force = false;
};

int Export(const TableExportOptions& options, const GlobalOptions& globals) {
  struct Part {
    const char* name;
    decltype(WriteTrials)* write;
  };
  constexpr std::array kParts = {Part{"trials", WriteTrials},
                                 Part{"metrics", WriteMetrics}};
  const Store store = OpenStore(globals);
  const Format format = options.to == "csv" ? Format::kCsv : Format::kJson;
  const fs::path directory = options.out;
  // Before anything is written.
  (void)ResolveExperiments(store, options.experiments);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw Error(ErrorKind::kUsage, "--out: cannot make '" + options.out +
                                       "': " + error.message() +
                                       "; choose a writable directory");
  }
  nlohmann::json files = nlohmann::json::array();
  std::array<fs::path, kParts.size()> paths;
  std::list<NewFile> opened;  // all of them before any is kept
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    paths[i] = directory / (std::string(kParts[i].name) + "." + options.to);
    opened.emplace_back(paths[i], options.force);
  }
  auto next = opened.begin();
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const fs::path& path = paths[i];
    NewFile& file = *next++;
    const std::int64_t rows = kParts[i].write(
        store, options.experiments, format, [&](std::string_view text) {
          file.Write(std::as_bytes(std::span(text)));
        });
    file.Keep();
    files.push_back(
        {{"file", path.string()}, {"rows", rows}, {"bytes", file.bytes()}});
    if (options.json) continue;
    std::cout << EscapeForTerminal(path.string()) << ": "
              << CountText(rows, "row") << '\n';
  }
  if (options.json) PrintJson({{"files", std::move(files)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpExport(CLI::App& app) {
  auto options = std::make_shared<TableExportOptions>();
  AddOption(app, "EXP", options->experiments,
            "Experiments with one metric (3 5 7-9)")
      .Required();
  AddOption(app, "--to", options->to,
            "Format: csv, or jsonl, a document a line")
      .TypeName("FORMAT")
      .OneOf({"csv", "jsonl"})
      .ShowDefault();
  AddOption(app, "--out", options->out,
            "Directory for the files trials and metrics")
      .TypeName("DIR")
      .IsPath()
      .ShowDefault();
  AddFlag(app, "--force", options->force, "Replace existing files");
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Write trials and metrics to CSV files",
                              "dtrain export 3 --to csv --out results"},
                             {"Write two experiments as JSON lines",
                              "dtrain export 3 5 --to jsonl"}}});
  return RunWith(Export, options);
}

}  // namespace dtrain
