#include "engine/report/plot.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

constexpr std::size_t kWidth = 72;
constexpr std::size_t kHeight = 18;
// Columns beside a plot: its axis and the tags of the curves.
constexpr std::size_t kMargins = 24;

struct PlotOptions {
  std::string target;
  std::vector<std::string> metrics;
  std::string x = "batches";
  std::size_t top = 10;
  bool log_x = false;
  bool log_y = false;
  std::string y;
  std::string smooth;
  std::string out;
};

// The trials of a plot, best first; those without a value last, by number.
std::vector<TrialId> RankedTrials(const Store& store,
                                  const ExperimentRow& experiment,
                                  const Target& target) {
  if (target.trial) return {TrialId{target.experiment, *target.trial}};
  auto trials = store.Trials(experiment.id);
  std::ranges::stable_sort(trials, [&](const TrialRow& a, const TrialRow& b) {
    if (!a.best || !b.best) return a.best.has_value() && !b.best.has_value();
    return IsBetter(a.best->value, b.best->value, experiment.smaller_is_better);
  });
  std::vector<TrialId> ranked;
  for (const TrialRow& trial : trials) ranked.push_back(trial.id);
  return ranked;
}

// Reads the named metrics and makes one curve of each trial, name and kind.
class CurveReader {
 public:
  CurveReader(const Store& store, const ExperimentRow& experiment,
              const Target& target, const PlotOptions& options)
      : store_(store),
        target_(target),
        x_(options.x),
        start_(experiment.started.value_or(experiment.created)) {}

  void Read(const std::string& name) {
    const MetricQuery query{
        .experiment = target_.experiment, .trial = target_.trial, .name = name};
    store_.ForEachMetric(query, [&](const MetricRow& row) {
      kinds_[name].insert(row.kind);
      auto& points = curves_[{row.trial, name, row.kind}];
      if (std::isfinite(row.value)) any_finite_ = true;
      points.emplace_back(XOf(row), row.value);
    });
  }

  bool any_finite() const { return any_finite_; }

  // Curves in the order of `ranked` trials and of `names`: the first `top`
  // trials are drawn in colours, the others faint.
  std::vector<PlotSeries> Curves(const std::vector<TrialId>& ranked,
                                 const std::vector<std::string>& names,
                                 std::size_t top) {
    std::vector<PlotSeries> all;
    for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        for (const MetricKind kind : kinds_[names[i]]) {
          const auto found = curves_.find({ranked[rank], names[i], kind});
          if (found == curves_.end()) continue;
          PlotSeries one{
              .name = NameOf(ranked[rank], names[i], kind),
              .points = std::move(found->second),
              .tag = target_.trial ? names[i] : ToString(ranked[rank]),
              .color = rank * names.size() + i,
              .dashed = IsDashed(names[i], kind),
              .faint = rank >= top || drawn_ == kMaxPlotCurves};
          std::ranges::stable_sort(one.points, {},
                                   &std::pair<double, double>::first);
          drawn_ += one.faint ? 0 : 1;
          all.push_back(std::move(one));
        }
      }
    }
    return all;
  }

 private:
  double XOf(const MetricRow& row) const {
    if (x_ == "epochs") return row.epoch;
    if (x_ == "batches") return static_cast<double>(row.batches);
    return static_cast<double>((row.time - start_).count()) / 1e6;
  }
  // A name that both training and validation report is drawn twice.
  bool IsDashed(const std::string& name, MetricKind kind) {
    return kinds_[name].size() > 1 && kind == MetricKind::kTraining;
  }
  std::string NameOf(TrialId trial, const std::string& name, MetricKind kind) {
    const std::string both =
        kinds_[name].size() > 1 ? " (" + std::string(MetricKindName(kind)) + ")"
                                : "";
    return ToString(trial) + " " + name + both;
  }

  const Store& store_;
  const Target& target_;
  const std::string& x_;
  const Timestamp start_;
  bool any_finite_ = false;
  std::size_t drawn_ = 0;  // curves that are not faint
  std::map<std::string, std::set<MetricKind>> kinds_;  // by name
  std::map<std::tuple<TrialId, std::string, MetricKind>,
           std::vector<std::pair<double, double>>>
      curves_;
};

// Exponential moving average with the given weight of the past. The weights of
// the first values are corrected for the missing past, as Adam does (Kingma and
// Ba, 2015).
void Smooth(double weight, std::vector<PlotSeries>& series) {
  for (PlotSeries& one : series) {
    double sum = 0, weights = 0;
    for (auto& point : one.points) {
      if (!std::isfinite(point.second)) continue;
      sum = weight * sum + (1 - weight) * point.second;
      weights = weight * weights + (1 - weight);
      point.second = sum / weights;
    }
  }
}

std::optional<double> ParseSmooth(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::string expected =
      "a number of at least 0 and less than 1, such as 0.9";
  const auto weight = ParseFinite(text);
  if (weight && *weight >= 0 && *weight < 1) return weight;
  throw Error(ErrorKind::kUsage,
              "--smooth: expected " + expected + ", got '" + text + "'");
}

std::optional<std::pair<double, double>> ParseLimits(const PlotOptions& given) {
  if (given.y.empty()) return std::nullopt;
  const std::string expected =
      given.log_y ? "two positive numbers LOW:HIGH, LOW < HIGH, such as 0.01:10"
                  : "two numbers LOW:HIGH, LOW < HIGH, such as 0:1.5";
  const std::size_t colon = given.y.find(':');
  const auto low = ParseFinite(given.y.substr(0, colon));
  const auto high = colon == std::string::npos
                        ? std::nullopt
                        : ParseFinite(given.y.substr(colon + 1));
  if (low && high && *low < *high && (!given.log_y || *low > 0)) {
    return std::pair(*low, *high);
  }
  throw Error(ErrorKind::kUsage,
              "--y: expected " + expected + ", got '" + given.y + "'");
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

// "experiment 3, asha: val_loss, best 10 of 500 trials".
std::string TitleOf(const ExperimentRow& experiment,
                    const std::vector<std::string>& metrics,
                    const std::vector<PlotSeries>& series, std::size_t trials) {
  const std::string title = "experiment " + std::to_string(experiment.id) +
                            ", " + experiment.name + ": " + Join(metrics, ", ");
  std::set<std::string> colored;
  std::size_t faint = 0;
  for (const PlotSeries& one : series) {
    if (one.faint) {
      ++faint;
    } else {
      colored.insert(one.tag);
    }
  }
  if (faint == 0) return title;
  return title + ", best " + std::to_string(colored.size()) + " of " +
         std::to_string(trials) + " trials";
}

std::string XLabel(const Store& store, const ExperimentRow& experiment,
                   const std::string& x) {
  if (x == "epochs") return x;
  if (x == "time") return "seconds since the start of the experiment";
  return CountColumn(store, experiment.id, Format::kText);
}

void DrawPlot(const PlotOptions& options, const std::vector<PlotSeries>& series,
              const PlotLabels& labels, const GlobalOptions& globals) {
  if (options.out.empty()) {
    const TerminalMode mode = ModeOf(STDOUT_FILENO, globals.color);
    const std::size_t width = mode.width > kMargins + 10
                                  ? std::min(mode.width - kMargins, 2 * kWidth)
                                  : kWidth;
    std::cout << DrawText(series, labels,
                          {.width = width,
                           .height = kHeight,
                           .utf8 = mode.utf8,
                           .color = mode.color});
    return;
  }
  WriteSvg(options.out, DrawSvg(series, labels));
  const auto faint = static_cast<std::size_t>(
      std::ranges::count(series, true, &PlotSeries::faint));
  if (FaintCurvesDrawn(faint) < faint) {
    Say(globals, "note: of the " + std::to_string(faint) +
                     " faint curves every n-th is drawn, " +
                     std::to_string(FaintCurvesDrawn(faint)) + " in all");
  }
  Say(globals, "wrote " + options.out);
}

int Plot(const PlotOptions& options, const GlobalOptions& globals) {
  const auto limits = ParseLimits(options);
  const auto smooth = ParseSmooth(options.smooth);
  const Store store = OpenStore(globals);
  const Target target = ParseTarget(options.target);
  const ExperimentRow experiment = FindTarget(store, target);
  const auto metrics = CheckedMetrics(store, experiment, options);
  CurveReader reader(store, experiment, target, options);
  for (const std::string& name : metrics) reader.Read(name);
  const auto ranked = RankedTrials(store, experiment, target);
  auto series = reader.Curves(ranked, metrics, options.top);
  if (smooth) Smooth(*smooth, series);
  if (!reader.any_finite()) {
    Say(globals, "note: " + options.target + " has no finite value of " +
                     Join(metrics, ", ") + " so far: the plot is empty");
  }
  const PlotLabels labels{
      .title = TitleOf(experiment, metrics, series, ranked.size()),
      .x = XLabel(store, experiment, options.x),
      .y = Join(metrics, ", "),
      .log_x = options.log_x,
      .log_y = options.log_y,
      .y_range = limits};
  DrawPlot(options, series, labels, globals);
  return kExitDone;
}

}  // namespace

CommandRun SetUpPlot(CLI::App& app) {
  auto options = std::make_shared<PlotOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "--metric", options->metrics,
            "Metric to plot (repeatable; default: the searcher's metric)")
      .TypeName("NAME")
      .Completes(ValueKind::kMetric)
      .OneEach();
  AddOption(app, "--x", options->x, "Horizontal axis: batches, epochs or time")
      .TypeName("AXIS")
      .OneOf({"batches", "epochs", "time"})
      .ShowDefault();
  AddOption(app, "--top", options->top,
            "Best trials in colors, others gray (at most 20 curves)")
      .TypeName("N")
      .AtLeast(0)
      .ShowDefault();
  AddOption(app, "--smooth", options->smooth,
            "Moving average; F from 0 to below 1 weighs the past")
      .TypeName("F");
  AddOption(app, "--y", options->y, "Limits of the vertical axis")
      .TypeName("LOW:HIGH");
  AddFlag(app, "--log-x", options->log_x, "Logarithmic horizontal axis");
  AddFlag(app, "--log-y", options->log_y, "Logarithmic vertical axis");
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
