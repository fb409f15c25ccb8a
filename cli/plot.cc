#include "engine/report/plot.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::size_t kWidth = 72;
constexpr std::size_t kHeight = 18;

struct PlotOptions {
  std::string target;
  std::vector<std::string> metrics;
  std::string x = "batches";
  std::string out;
};

// Reads the recorded metrics, one curve per trial and name.
std::vector<PlotSeries> ReadSeries(const Store& store, const Target& target,
                                   const std::vector<std::string>& metrics,
                                   bool over_epochs) {
  std::map<std::pair<std::string, std::int64_t>, PlotSeries> series;
  for (const std::string& name : metrics) {
    const MetricQuery query{
        .experiment = target.experiment, .trial = target.trial, .name = name};
    store.ForEachMetric(query, [&](const MetricRow& row) {
      PlotSeries& one = series[{name, row.trial.number}];
      one.name = ToString(row.trial) + " " + name;
      one.points.emplace_back(
          over_epochs ? row.epoch : static_cast<double>(row.batches),
          row.value);
    });
  }
  std::vector<PlotSeries> all;
  for (auto& [key, one] : series) {
    std::ranges::stable_sort(one.points, {}, &std::pair<double, double>::first);
    all.push_back(std::move(one));
  }
  return all;
}

// Returns the named metrics, or the searcher's metric; throws if one is not
// recorded.
std::vector<std::string> CheckedMetrics(const Store& store,
                                        const ExperimentRow& experiment,
                                        const PlotOptions& options) {
  const auto names = store.MetricNames(experiment.id);
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<std::string> wanted = options.metrics;
  if (wanted.empty()) wanted.push_back(experiment.metric);
  for (const std::string& name : wanted) {
    if (known.contains(name)) continue;
    throw Error(ErrorKind::kNotFound,
                "experiment " + std::to_string(experiment.id) +
                    " has no metric '" + name + "'" +
                    (names.empty() ? std::string("; it has no metrics yet")
                                   : "; it has " + Join(names, ", ")));
  }
  return wanted;
}

void WriteSvg(const std::string& path, const std::string& svg) {
  if (!path.ends_with(".svg")) {
    throw Error(
        ErrorKind::kUsage,
        "--out: '" + path + "' is not an SVG file; its name must end in .svg");
  }
  WriteNamedFile("--out", path, svg, "choose a file in a writable directory");
}

int Plot(const PlotOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const Target target = ParseTarget(options.target);
  const ExperimentRow experiment = FindTarget(store, target);
  const auto metrics = CheckedMetrics(store, experiment, options);
  const auto series = ReadSeries(store, target, metrics, options.x == "epochs");
  const PlotLabels labels{
      .title = "experiment " + std::to_string(experiment.id) + ", " +
               experiment.name + ": " + Join(metrics, ", "),
      .x = options.x == "epochs"
               ? options.x
               : CountColumn(store, experiment.id, Format::kText)};
  if (options.out.empty()) {
    const std::size_t width = ModeOf(STDOUT_FILENO, globals.color).width;
    std::cout << DrawText(
        series, labels, width > 20 ? std::min(width - 14, 2 * kWidth) : kWidth,
        kHeight);
  } else {
    WriteSvg(options.out, DrawSvg(series, labels));
    Say(globals, "wrote " + options.out);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpPlot(CLI::App& app) {
  auto options = std::make_shared<PlotOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Required();
  AddOption(app, "--metric", options->metrics,
            "Metric to plot (repeatable; default: the searcher's metric)")
      .TypeName("NAME")
      .OneEach();
  AddOption(app, "--x", options->x, "Horizontal axis: batches or epochs")
      .TypeName("AXIS")
      .OneOf({"batches", "epochs"})
      .ShowDefault();
  AddOption(app, "--out", options->out,
            "Write an SVG file instead of drawing in the terminal")
      .TypeName("FILE")
      .IsPath();
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Plot the searcher's metric of all trials",
                              "dtrain plot 3"},
                             {"Write two metrics of a trial to an SVG file",
                              "dtrain plot 3.7 --metric loss --metric accuracy "
                              "--out trial.svg"}}});
  return RunWith(Plot, options);
}

}  // namespace dtrain
