// `dtrain plot`: figures in the terminal or as SVG.
//
// Each kind is a row of PlotKinds: its name, the options that it obeys, and the
// function that reads its data (engine/app/plot_data.h) and makes a Figure
// (engine/report/plot.h). An option that a kind would ignore is an error. The
// Figure is independent of the output; DrawText or DrawSvg draws it.
//
// Lengths of different experiments are comparable in one unit only.
// ChooseLengthAxis converts to epochs if the experiments count differently, all
// have epochs and --x names no unit; otherwise a note says that they cannot be
// compared.

#include "engine/report/plot.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "engine/app/plot_data.h"
#include "engine/app/stores.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/plot_subjects.h"
#include "engine/report/system_view.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr std::size_t kWidth = 96;  // without a terminal
constexpr std::size_t kMaxWidth = 168;
constexpr std::size_t kMaxTargets = 50;
constexpr double kBestQuantile = 0.1;

struct PlotOptions : JsonOption {
  std::vector<std::string> targets;
  std::string kind = "curves";
  std::vector<std::string> metrics;
  std::vector<std::string> hparams;
  std::string at;
  std::string group;
  std::string filter;
  std::string x;
  std::optional<std::int64_t> top;
  bool log_x = false;
  bool log_y = false;
  bool outliers = false;
  std::string y;
  std::string smooth;
  std::string out;
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> height;
  std::optional<std::int64_t> font_size;
  std::optional<std::string> title;
};

// A plot with its options checked, and the store that it reads.
struct PlotSource {
  const Store& store;
  const PlotOptions& options;
  std::vector<Target> targets;
  PlotLook look;
  TrialSelection selection;
  std::vector<std::string> notes = {};
};

struct PlotKind {
  std::string_view name;
  // Options that it obeys, of those that not every kind obeys.
  std::vector<std::string_view> options;
  Figure (*draw)(PlotSource& source);
};

// In the order in which they are named.
std::vector<std::int64_t> ExperimentIds(const PlotSource& source) {
  std::vector<std::int64_t> ids;
  for (const Target& target : source.targets) {
    if (std::ranges::find(ids, target.experiment) == ids.end()) {
      ids.push_back(target.experiment);
    }
  }
  return ids;
}

PlotQuery MakeQuery(const PlotSource& source) {
  PlotQuery query{.experiments = ExperimentIds(source),
                  .metrics = source.options.metrics,
                  .place = ValuePlace{.kind = ValuePlace::Kind::kBest},
                  .group = source.options.group,
                  .selection = source.selection};
  if (!source.options.at.empty()) {
    query.place = ParseValuePlace("--at", source.options.at);
  }
  return query;
}

// Throws unless each name is a searched hyperparameter of one of the searches.
void RequireHparams(const PlotData& data,
                    const std::vector<std::string>& names) {
  std::set<std::string> all_names;
  for (const PlotSearch& search : data.searches) {
    for (const SearchAxis& axis : search.axes) all_names.insert(axis.name);
  }
  for (const std::string& name : names) {
    if (all_names.contains(name)) continue;
    const std::vector<std::string> all(all_names.begin(), all_names.end());
    throw Error(ErrorKind::kNotFound,
                "--hparam: '" + name + "' is not searched; searched are " +
                    (all.empty() ? "none" : ListNames(all)));
  }
}

PlotData ReadSearches(PlotSource& source, const PlotQuery& query) {
  PlotData data = ReadPlotData(source.store, query, source.notes);
  RequireHparams(data, source.look.hparams);
  return data;
}

// Returns the named metrics, or the searcher's metric; throws if no target has
// recorded one of them.
std::vector<std::string> CurveMetrics(const PlotSource& source) {
  std::set<std::string> all_names;
  std::vector<std::string> metrics = source.options.metrics;
  const auto experiments = ExperimentIds(source);
  for (const std::int64_t id : experiments) {
    const ExperimentRow row = FindExperiment(source.store, id);
    if (metrics.empty()) metrics.push_back(row.metric);
    for (const std::string& name : source.store.MetricNames(id)) {
      all_names.insert(name);
    }
  }
  const std::string who =
      experiments.size() == 1
          ? "experiment " + std::to_string(experiments[0]) + " has no metric '"
          : "none of these experiments has a metric '";
  for (const std::string& name : metrics) {
    if (all_names.contains(name)) continue;
    const std::vector<std::string> names(all_names.begin(), all_names.end());
    throw Error(ErrorKind::kNotFound, who + name + "'" + KnownMetrics(names));
  }
  return metrics;
}

// Removes the experiments without epochs, which have no place on an axis of
// epochs, and notes them. Throws if no other one remains.
void KeepThoseWithEpochs(PlotSource& source) {
  std::vector<std::string> without;
  for (const std::int64_t id : ExperimentIds(source)) {
    if (!KnowsEpochs(source.store, id)) without.push_back(std::to_string(id));
  }
  if (without.empty()) return;
  const bool several = without.size() > 1;
  const std::string text = (several ? "experiments " : "experiment ") +
                           Join(without, ", ") +
                           (several ? " report" : " reports") + " no epochs";
  std::erase_if(source.targets, [&](const Target& target) {
    return std::ranges::count(without, std::to_string(target.experiment)) > 0;
  });
  if (source.targets.empty()) {
    throw Error(ErrorKind::kUsage,
                "--x epochs: " + text + "; use --x batches or --x time");
  }
  source.notes.push_back(text + " and " + (several ? "are" : "is") +
                         " left out");
}

struct HorizontalAxis {
  CurveAxis axis = CurveAxis::kBatches;
  std::string label;
};

// The axis that --x names, for the experiments that have a place on it.
HorizontalAxis ChooseX(PlotSource& source) {
  const std::string& x = source.options.x;
  if (x == "time") {
    return {CurveAxis::kSeconds, "seconds since the start of the experiment"};
  }
  if (x == "epochs") {
    KeepThoseWithEpochs(source);
    return {CurveAxis::kEpochs, x};
  }
  LengthAxis axis =
      ChooseLengthAxis(source.store, ExperimentIds(source), x.empty());
  if (!axis.note.empty()) {
    source.notes.push_back(axis.note + (axis.in_epochs
                                            ? "; --x batches shows their own"
                                            : "; --x time compares them"));
  }
  return {axis.in_epochs ? CurveAxis::kEpochs : CurveAxis::kBatches,
          std::move(axis.label)};
}

// Keeps the trials that are named one by one, and removes the others of their
// experiments.
void KeepTargets(const PlotSource& source, PlotData& data) {
  for (PlotSearch& search : data.searches) {
    std::set<std::int64_t> numbers;
    bool all = false;
    for (const Target& target : source.targets) {
      if (target.experiment != search.id) continue;
      all = all || !target.trial;
      if (target.trial) numbers.insert(*target.trial);
    }
    if (all) continue;
    std::erase_if(search.trials, [&](const PlotTrial& trial) {
      return !numbers.contains(trial.id.number);
    });
  }
}

Figure DrawCurves(PlotSource& source) {
  const PlotOptions& options = source.options;
  if (options.x == "trials") {
    throw Error(ErrorKind::kUsage,
                "--x trials needs --kind history; curves have batches, epochs "
                "or time");
  }
  HorizontalAxis x = ChooseX(source);
  CurvesRequest request{.metrics = CurveMetrics(source),
                        .x_label = std::move(x.label),
                        .one_trial = source.targets.size() == 1 &&
                                     source.targets[0].trial.has_value()};
  if (!options.smooth.empty()) request.smooth = *ParseFinite(options.smooth);
  std::vector<TrialCurve> curves;
  for (const Target& target : source.targets) {
    auto own = ReadCurves(source.store, target.experiment, target.trial,
                          request.metrics, x.axis, source.selection);
    std::ranges::move(own, std::back_inserter(curves));
  }
  const bool any = std::ranges::any_of(curves, [](const TrialCurve& curve) {
    return std::ranges::any_of(curve.points, [](const CurvePoint& point) {
      return std::isfinite(point.second);
    });
  });
  if (!any) {
    source.notes.push_back(
        Join(options.targets, ", ") + " has no finite value of " +
        ListNames(request.metrics) + " so far: the plot is empty");
  }
  PlotData data = ReadRanks(source.store, ExperimentIds(source), options.group,
                            source.selection);
  KeepTargets(source, data);
  return CurvesFigure(data, std::move(curves), request, source.look);
}

Figure DrawHistory(PlotSource& source) {
  const bool by_trials = source.options.x == "trials";
  HorizontalAxis x = by_trials ? HorizontalAxis() : ChooseX(source);
  PlotQuery query = MakeQuery(source);
  query.validations = true;
  const PlotData data = ReadSearches(source, query);
  if (by_trials) {
    return HistoryFigure(data, Effort::kTrials, "trials validated so far",
                         source.look);
  }
  if (x.axis == CurveAxis::kSeconds) {
    return HistoryFigure(data, Effort::kSeconds, x.label, source.look);
  }
  const bool in_epochs = x.axis == CurveAxis::kEpochs;
  return HistoryFigure(data, in_epochs ? Effort::kEpochs : Effort::kBatches,
                       x.label + " of all trials together", source.look);
}

// By default the trials are compared at one length.
PlotQuery MakeLengthQuery(const PlotSource& source) {
  PlotQuery query = MakeQuery(source);
  if (source.options.at.empty()) query.place.reset();
  return query;
}

Figure DrawImportance(PlotSource& source) {
  return ImportanceFigure(ReadSearches(source, MakeLengthQuery(source)),
                          kBestQuantile);
}

Figure DrawParallel(PlotSource& source) {
  return ParallelFigure(ReadSearches(source, MakeQuery(source)), source.look);
}

Figure DrawSlice(PlotSource& source) {
  return SliceFigure(ReadSearches(source, MakeQuery(source)), source.look);
}

Figure DrawContour(PlotSource& source) {
  const std::size_t named = source.look.hparams.size();
  if (named != 0 && named != 2) {
    throw Error(ErrorKind::kUsage,
                "--kind contour needs two --hparam or none, got " +
                    std::to_string(named));
  }
  return ContourFigure(ReadSearches(source, MakeLengthQuery(source)),
                       source.look);
}

Figure DrawDistribution(PlotSource& source) {
  return DistributionFigure(ReadSearches(source, MakeQuery(source)),
                            source.look);
}

Figure DrawPareto(PlotSource& source) {
  if (source.options.metrics.size() != 2) {
    throw Error(ErrorKind::kUsage,
                "--kind pareto needs two metrics, such as --metric "
                "accuracy:max --metric latency:min; got " +
                    std::to_string(source.options.metrics.size()));
  }
  return ParetoFigure(ReadSearches(source, MakeQuery(source)), source.look);
}

// Kinds that need no metric take the trials as they are.
Figure DrawTimeline(PlotSource& source) {
  return TimelineFigure(
      ReadRuns(source.store, ExperimentIds(source), source.selection));
}

Figure DrawRungs(PlotSource& source) {
  return RungsFigure(
      ReadRungs(source.store, ExperimentIds(source), source.selection));
}

// A trial on several machines has a series for each.
void AddSystemSeries(const PlotSource& source, const PlotTrial& trial,
                     Timestamp start, std::vector<SystemSeries>& all) {
  std::map<int, SystemSeries> by_rank;
  for (SystemRow& row : source.store.SystemSamples(trial.id)) {
    by_rank[row.rank].rows.push_back(std::move(row));
  }
  for (auto& [rank, series] : by_rank) {
    series.start = start;
    series.name = ToString(trial.id);
    if (by_rank.size() > 1) series.name += " from rank " + std::to_string(rank);
    all.push_back(std::move(series));
  }
}

PlotData ReadSampledTrials(const PlotSource& source) {
  PlotData data = ReadRanks(source.store, ExperimentIds(source), /*group=*/"",
                            source.selection);
  KeepTargets(source, data);
  return data;
}

Figure DrawSystem(PlotSource& source) {
  const PlotData data = ReadSampledTrials(source);
  std::map<std::int64_t, Timestamp> starts;
  for (const PlotSearch& search : data.searches) {
    starts[search.id] = search.start;
  }
  const std::vector<const PlotTrial*> trials = RankedTrials(data);
  const std::size_t most = std::min(source.look.top, kMaxLegend);
  std::vector<SystemSeries> all;
  std::size_t shown = 0;
  for (const PlotTrial* trial : trials) {
    if (all.size() >= most) break;
    const std::size_t before = all.size();
    AddSystemSeries(source, *trial, starts[trial->id.experiment], all);
    if (all.size() > before) ++shown;
  }
  if (all.size() > most) all.resize(most);
  std::string text = "resources";
  if (shown < trials.size()) {
    text += ", best " + std::to_string(shown) + " of " +
            CountText(trials.size(), "trial");
  }
  return SystemFigure(PlotTitle(data, text), all);
}

// Prints the samples of all trials, not only of those that a figure has.
void PrintSamples(const PlotSource& source) {
  const PlotData data = ReadSampledTrials(source);
  nlohmann::json samples = nlohmann::json::array();
  for (const PlotSearch& search : data.searches) {
    for (const PlotTrial& trial : search.trials) {
      for (const SystemRow& row : source.store.SystemSamples(trial.id)) {
        samples.push_back(SystemRowJson(trial.id, row));
      }
    }
  }
  PrintJson({{"kind", "system"}, {"samples", std::move(samples)}});
}

const std::vector<PlotKind>& PlotKinds() {
  static const std::vector<PlotKind> kKinds = {
      {"curves",
       {"--metric", "--x", "--top", "--smooth", "--y", "--log-x", "--log-y",
        "--outliers", "--group"},
       DrawCurves},
      {"history",
       {"--metric", "--x", "--y", "--log-x", "--log-y", "--outliers",
        "--group"},
       DrawHistory},
      {"importance", {"--metric", "--at"}, DrawImportance},
      {"parallel",
       {"--metric", "--at", "--hparam", "--top", "--outliers", "--group"},
       DrawParallel},
      {"slice",
       {"--metric", "--at", "--hparam", "--top", "--group", "--y", "--log-y",
        "--outliers"},
       DrawSlice},
      {"contour",
       {"--metric", "--at", "--hparam", "--top", "--group"},
       DrawContour},
      {"edf",
       {"--metric", "--at", "--group", "--log-x", "--outliers"},
       DrawDistribution},
      {"pareto",
       {"--metric", "--y", "--log-x", "--log-y", "--outliers"},
       DrawPareto},
      {"timeline", {}, DrawTimeline},
      {"rungs", {}, DrawRungs},
      {"system", {"--top", "--json"}, DrawSystem}};
  return kKinds;
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const PlotKind& kind : PlotKinds()) names.emplace_back(kind.name);
  return names;
}

// Throws if an option is given that the kind would ignore.
void RejectUnusedOptions(const PlotOptions& options, const PlotKind& kind) {
  const std::pair<std::string_view, bool> flags[] = {
      {"--metric", !options.metrics.empty()},
      {"--hparam", !options.hparams.empty()},
      {"--at", !options.at.empty()},
      {"--group", !options.group.empty()},
      {"--x", !options.x.empty()},
      {"--top", options.top.has_value()},
      {"--smooth", !options.smooth.empty()},
      {"--y", !options.y.empty()},
      {"--log-x", options.log_x},
      {"--log-y", options.log_y},
      {"--outliers", options.outliers},
      {"--json", options.json}};
  for (const auto& [name, is_given] : flags) {
    if (!is_given ||
        std::ranges::find(kind.options, name) != kind.options.end())
      continue;
    throw Error(ErrorKind::kUsage, std::string(name) +
                                       " cannot be used with --kind " +
                                       std::string(kind.name));
  }
  const bool several = options.metrics.size() > 1 && kind.name != "curves" &&
                       kind.name != "pareto";
  if (several) {
    throw Error(ErrorKind::kUsage,
                "--kind " + std::string(kind.name) + " takes one --metric");
  }
  if (options.top && !options.group.empty()) {
    throw Error(ErrorKind::kUsage, "--top cannot be combined with --group");
  }
}

// "lr" of "hp.lr".
std::string ParseHparamName(const std::string& option,
                            const std::string& text) {
  constexpr std::string_view kPrefix = "hp.";
  const bool has_prefix =
      text.starts_with(kPrefix) && text.size() > kPrefix.size();
  if (has_prefix) return text.substr(kPrefix.size());
  if (!text.empty()) return text;
  throw Error(
      ErrorKind::kUsage,
      option + ": expected hp.NAME, such as hp.optimizer, got '" + text + "'");
}

void CheckSmooth(const std::string& text) {
  if (text.empty()) return;
  const auto weight = ParseFinite(text);
  if (weight && *weight >= 0 && *weight < 1) return;
  throw Error(ErrorKind::kUsage,
              "--smooth: expected a number of at least 0 and less than 1, such "
              "as 0.9, got '" +
                  text + "'");
}

std::optional<std::pair<double, double>> ParseLimits(
    const PlotOptions& options) {
  if (options.y.empty()) return std::nullopt;
  const std::string expected =
      options.log_y
          ? "two positive numbers LOW:HIGH, LOW < HIGH, such as 0.01:10"
          : "two numbers LOW:HIGH, LOW < HIGH, such as 0:1.5";
  const std::size_t colon = options.y.find(':');
  const auto low = ParseFinite(options.y.substr(0, colon));
  const auto high = colon == std::string::npos
                        ? std::nullopt
                        : ParseFinite(options.y.substr(colon + 1));
  if (low && high && *low < *high && (!options.log_y || *low > 0)) {
    return std::pair(*low, *high);
  }
  throw Error(ErrorKind::kUsage,
              "--y: expected " + expected + ", got '" + options.y + "'");
}

std::vector<Target> FindPlotTargets(const Store& store,
                                    const PlotOptions& options,
                                    const PlotKind& kind) {
  std::vector<Target> targets;
  for (const Target& target : ResolveTargets(store, options.targets)) {
    const std::string text = ToString(target);
    if (target.trial && kind.name != "curves" && kind.name != "system") {
      throw Error(ErrorKind::kUsage, "--kind " + std::string(kind.name) +
                                         " needs experiments; '" + text +
                                         "' is a trial");
    }
    for (const Target& other : targets) {
      if (other.experiment == target.experiment &&
          (!other.trial || !target.trial || other.trial == target.trial)) {
        throw Error(ErrorKind::kUsage, "'" + text + "' is named twice");
      }
    }
    targets.push_back(target);
  }
  if (targets.size() <= kMaxTargets) return targets;
  throw Error(ErrorKind::kUsage, "expected at most " +
                                     std::to_string(kMaxTargets) +
                                     " experiments or trials, got " +
                                     std::to_string(targets.size()));
}

void CheckFileName(const std::string& path) {
  if (path.empty() || path.ends_with(".svg")) return;
  throw Error(
      ErrorKind::kUsage,
      "--out: '" + path + "' is not an SVG file; its name must end in .svg");
}

// Size of the SVG file. Throws for one without a file, or in which no text has
// space.
SvgSize ParseSize(const PlotOptions& options) {
  constexpr std::int64_t kMaxPixels = 20'000;
  SvgSize size;
  const std::pair<std::string, std::optional<std::int64_t>> given[] = {
      {"--width", options.width},
      {"--height", options.height},
      {"--font-size", options.font_size}};
  for (const auto& [name, value] : given) {
    if (!value) continue;
    if (options.out.empty()) {
      throw Error(ErrorKind::kUsage, name + " needs --out FILE.svg");
    }
    if (*value > kMaxPixels) {
      throw Error(ErrorKind::kUsage,
                  name + ": expected at most " + std::to_string(kMaxPixels) +
                      " pixels, got " + std::to_string(*value));
    }
  }
  if (options.width) size.width = static_cast<double>(*options.width);
  if (options.height) size.height = static_cast<double>(*options.height);
  if (options.font_size) {
    size.font_size = static_cast<double>(*options.font_size);
  }
  const double least = kMinSvgWidth * size.font_size;
  if (size.width >= least) return size;
  throw Error(ErrorKind::kUsage,
              "--width: expected at least " +
                  std::to_string(static_cast<std::int64_t>(least)) +
                  " for this font size, got " +
                  std::to_string(static_cast<std::int64_t>(size.width)));
}

void Print(const Figure& figure, const PlotOptions& options,
           const GlobalOptions& globals) {
  for (const std::string& note : figure.notes)
    PrintNotice(globals, "note: " + note);
  if (options.out.empty()) {
    const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
    // The notes stand above, the prompt below.
    std::size_t used = 1;
    for (const std::string& note : figure.notes) {
      used += 1 + (note.size() + 14) / std::max<std::size_t>(mode.width, 20);
    }
    std::cout << DrawText(
        figure,
        {.width = mode.width == 0 ? kWidth : std::min(mode.width, kMaxWidth),
         .max_lines = mode.height > used ? mode.height - used : 0,
         .utf8 = mode.utf8,
         .color = mode.color});
    return;
  }
  const Drawing drawing = DrawSvg(figure, ParseSize(options));
  WriteNamedFile("--out", options.out, drawing.text,
                 "choose a file in a writable directory");
  for (const std::string& note : drawing.notes)
    PrintNotice(globals, "note: " + note);
  PrintNotice(globals, "wrote " + options.out);
}

int Plot(const PlotOptions& request, const GlobalOptions& globals) {
  PlotOptions options = request;
  const PlotKind& kind =
      *std::ranges::find(PlotKinds(), options.kind, &PlotKind::name);
  RejectUnusedOptions(options, kind);
  CheckSmooth(options.smooth);
  CheckFileName(options.out);
  ParseSize(options);
  PlotLook look{.log_x = options.log_x,
                .log_y = options.log_y,
                .y_range = ParseLimits(options),
                .all_values = options.outliers};
  if (options.top) look.top = static_cast<std::size_t>(*options.top);
  for (const std::string& name : options.hparams) {
    look.hparams.push_back(ParseHparamName("--hparam", name));
  }
  const Store store = OpenStore(globals);
  auto targets = FindPlotTargets(store, options, kind);
  if (!options.group.empty()) {
    options.group = ParseGroup(options.group, targets);
  }
  TrialSelection selection(store, targets, options.filter,
                           Clock::System().now());
  PlotSource source{.store = store,
                    .options = options,
                    .targets = std::move(targets),
                    .look = std::move(look),
                    .selection = std::move(selection)};
  source.notes = source.selection.notes();
  if (options.json) {
    for (const std::string& note : source.notes) {
      PrintNotice(globals, "note: " + note);
    }
    PrintSamples(source);
    return kExitDone;
  }
  Figure figure = kind.draw(source);
  if (source.selection.is_filtered()) {
    figure.title += ", " + source.selection.Text();
  }
  if (options.title) figure.title = *options.title;
  figure.notes.insert(figure.notes.begin(), source.notes.begin(),
                      source.notes.end());
  Print(figure, options, globals);
  return kExitDone;
}

// The options that choose what is shown.
void AddContent(CLI::App& app, PlotOptions& options) {
  AddOption(app, "EXP", options.targets, "Experiments (3) or trials (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "--kind", options.kind,
            "curves, history, importance, parallel, slice, contour, edf, "
            "pareto, timeline, rungs or system: what trials use")
      .TypeName("KIND")
      .OneOf(KindNames())
      .ShowDefault();
  AddOption(app, "--metric", options.metrics,
            "Metric to plot (repeatable; default: the searcher's metric)")
      .TypeName("NAME")
      .Completes(ValueKind::kMetric)
      .OneEach();
  AddOption(app, "--hparam", options.hparams,
            "Hyperparameter to show (repeatable; default: the most important)")
      .TypeName("hp.NAME")
      .OneEach();
  AddOption(app, "--at", options.at,
            "Value of a trial: at this length, its best or last validation")
      .TypeName("LENGTH|best|last");
  AddOption(app, "--group", options.group,
            "Color by a hyperparameter, or by the points of a search with "
            "repeats; curves are means with standard deviations")
      .TypeName("hp.NAME|points");
  AddTrialFilter(app, options.filter);
}

// The options that choose how it is shown.
void AddLook(CLI::App& app, PlotOptions& options) {
  AddOption(app, "--x", options.x,
            "Horizontal axis: batches (default), epochs, time; of a history "
            "also trials")
      .TypeName("AXIS")
      .OneOf({"batches", "epochs", "time", "trials"});
  AddOption(app, "--top", options.top,
            "Best trials in colors, others gray (default 10, at most 20)")
      .TypeName("N")
      .AtLeast(0);
  AddOption(app, "--smooth", options.smooth,
            "Exponential moving average; F, from 0 to below 1, weighs the past")
      .TypeName("F");
  AddOption(app, "--y", options.y, "Limits of the vertical axis")
      .TypeName("LOW:HIGH");
  AddFlag(app, "--outliers", options.outliers,
          "Axes reach to outliers, which are arrows at the edge otherwise");
  AddFlag(app, "--log-x", options.log_x, "Logarithmic horizontal axis");
  AddFlag(app, "--log-y", options.log_y, "Logarithmic vertical axis");
  AddOption(app, "--out", options.out,
            "Write an SVG file instead of drawing in the terminal")
      .TypeName("FILE")
      .IsPath();
  AddJsonOption(app, options);
  AddOption(app, "--width", options.width,
            "Width of the file in pixels of 1/96 inch (default 900)")
      .TypeName("PIXELS")
      .AtLeast(1);
  AddOption(app, "--height", options.height,
            "Height of the file (default: by its content)")
      .TypeName("PIXELS")
      .AtLeast(1);
  AddOption(app, "--font-size", options.font_size,
            "Size of its texts, lines and dots (default 13)")
      .TypeName("PIXELS")
      .AtLeast(4);
  AddOption(app, "--title", options.title, "Title, in place of a description")
      .TypeName("TITLE");
}

}  // namespace

CommandRun SetUpPlot(CLI::App& app) {
  auto options = std::make_shared<PlotOptions>();
  AddContent(app, *options);
  AddLook(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {{"Plot the searcher's metric of all trials",
                              "dtrain plot 3"},
                             {"Compare how fast two searches found good trials",
                              "dtrain plot 3 4 --kind history --out h.svg"}}});
  return RunWith(Plot, options);
}

}  // namespace dtrain
