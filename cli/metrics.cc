#include <algorithm>
#include <cctype>
#include <iomanip>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct MetricsOptions : TableOptions {
  std::string target;
  std::string kind;
  std::string name;
  bool superseded = false;
};

// Rows are printed as they are read: there may be millions.
void PrintMetricsJson(const Store& store, const MetricQuery& query) {
  const char* separator = "\n";
  const bool terminal = StdoutIsTerminal();
  std::cout << "{\"metrics\": [";
  store.ForEachMetric(query, [&](const MetricRow& row) {
    nlohmann::json json = MetricJson(row);
    if (query.superseded) json["superseded"] = row.superseded;
    std::cout << separator << DumpJson(json, /*indent=*/-1, terminal);
    separator = ",\n";
  });
  std::cout << "\n]}\n";
}

void PrintMetricsCsv(const Store& store, const MetricQuery& query) {
  const bool terminal = StdoutIsTerminal();
  std::vector<std::string> cells = {"trial", "kind",  "batches", "epoch",
                                    "name",  "value", "time"};
  if (query.superseded) cells.push_back("superseded");
  std::cout << CsvLine(cells, terminal);
  store.ForEachMetric(query, [&](const MetricRow& row) {
    cells = {ToString(row.trial),
             std::string(MetricKindName(row.kind)),
             std::to_string(row.batches),
             FormatNumber(row.epoch),
             row.name,
             FormatNumber(row.value),
             FormatTimestamp(row.time)};
    if (query.superseded) cells.push_back(row.superseded ? "true" : "false");
    std::cout << CsvLine(cells, terminal);
  });
}

void PrintMetricsText(const Store& store, const MetricQuery& query) {
  std::size_t width = 4;
  for (const std::string& name : store.MetricNames(query.experiment)) {
    width = std::max(width, DisplayWidth(EscapeForTerminal(name)));
  }
  const auto print = [&](const std::string& trial, std::string_view kind,
                         const std::string& batches, const std::string& epoch,
                         const std::string& name, const std::string& value,
                         const std::string& time) {
    const std::size_t used = DisplayWidth(name);
    std::cout << std::setw(8) << trial << "  " << std::left << std::setw(10)
              << kind << std::right << "  " << std::setw(9) << batches << "  "
              << std::setw(8) << epoch << "  " << name
              << std::string(width - std::min(width, used), ' ') << "  "
              << std::setw(12) << value << "  " << time << '\n';
  };
  std::string count = CountColumn(store, query.experiment, Format::kText);
  std::ranges::transform(count, count.begin(), ::toupper);
  print("TRIAL", "KIND", count, "EPOCH", "NAME", "VALUE", "TIME");
  store.ForEachMetric(query, [&](const MetricRow& row) {
    print(ToString(row.trial), MetricKindName(row.kind),
          std::to_string(row.batches), FormatMetric(row.epoch),
          EscapeForTerminal(row.name), FormatMetric(row.value),
          FormatTime(row.time) + (row.superseded ? "  superseded" : ""));
  });
}

int ShowMetrics(const MetricsOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ResolveTarget(store, options.target);
  FindTarget(store, target);
  MetricQuery query{.experiment = target.experiment, .trial = target.trial};
  if (options.kind == "training") query.kind = MetricKind::kTraining;
  if (options.kind == "validation") query.kind = MetricKind::kValidation;
  if (!options.name.empty()) query.name = options.name;
  query.superseded = options.superseded;
  switch (options.format()) {
    case Format::kJson:
      PrintMetricsJson(store, query);
      break;
    case Format::kCsv:
      PrintMetricsCsv(store, query);
      break;
    case Format::kText:
      PrintMetricsText(store, query);
      break;
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpMetrics(CLI::App& app) {
  auto options = std::make_shared<MetricsOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "--kind", options->kind,
            "Only training or only validation metrics")
      .TypeName("KIND")
      .OneOf({"training", "validation"});
  AddOption(app, "--name", options->name, "Only the metric NAME")
      .TypeName("NAME")
      .Completes(ValueKind::kMetric);
  AddFlag(app, "--superseded", options->superseded,
          "Include values that a restart has superseded");
  AddTableOptions(app, *options);
  SetHelp(app,
          {.exits = ReaderExits(),
           .examples = {{"Print the validation loss of a trial",
                         "dtrain metrics 3.7 --kind validation --name loss"},
                        {"Write all metrics of an experiment to a CSV file",
                         "dtrain metrics 3 --csv > metrics.csv"}}});
  return RunWith(ShowMetrics, options);
}

}  // namespace dtrain
