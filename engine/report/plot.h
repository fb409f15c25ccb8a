#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/analysis/search_axes.h"
#include "engine/analysis/statistics.h"
#include "engine/report/chart.h"
#include "engine/store/rows.h"

// The kinds of plots: pure functions from recorded values to figures.

namespace dtrain {

/// A metric and its better direction.
struct PlotMetric {
  std::string name;
  bool smaller_is_better = true;
};

/// A trial as a plot sees it.
struct PlotTrial {
  TrialId id;
  State state = State::kPending;
  // Value of each metric of the plot; NaN: none.
  std::vector<double> values;
  std::vector<double> places;  // on the axes of its search
  nlohmann::json group;        // value of the hyperparameter that groups trials
  std::int64_t rung = 0;       // the last one that it reached
  std::int64_t best_batches = 0;  // at its best validation
  bool ended_early = false;       // before the length that it was to train to
  std::optional<Timestamp> ended;
  // The runs of its process, in seconds since the start of the experiment.
  std::vector<Span> runs = {};
};

/// An experiment as a plot sees it.
struct PlotSearch {
  std::int64_t id = 0;
  std::string name;
  Timestamp start{0};
  std::vector<SearchAxis> axes;
  std::vector<PlotTrial> trials;
  // Validations of the first metric, by time.
  std::vector<Observation> validations;
  // Lengths of the first, second, … rung, such as "16 batches"; several, as "4
  // or 16 batches", if the brackets of the search differ.
  std::vector<std::string> rung_lengths = {};
};

struct PlotData {
  std::vector<PlotMetric> metrics;
  // Which validation of a trial its values come from: "at the best validation".
  std::string place;
  std::string group;  // name of the hyperparameter that groups trials, or empty
  std::vector<PlotSearch> searches;
};

/// Choices of the user.
struct PlotLook {
  std::size_t top = 10;  // trials in colours
  bool log_x = false;
  bool log_y = false;
  std::optional<std::pair<double, double>> y_range;  // of the metric
  bool all_values = false;  // axes of values reach to outliers
  // Hyperparameters to show; empty: the most important ones.
  std::vector<std::string> hparams = {};
};

/// A metric of a trial over its training.
struct TrialCurve {
  TrialId trial;
  std::string metric;
  MetricKind kind = MetricKind::kTraining;
  std::vector<CurvePoint> points;
};

/// Selection of trials' curves to draw.
struct CurvesRequest {
  std::vector<std::string> metrics;
  std::string x_label;
  double smooth = 0;       // weight of the past, 0 to below 1
  bool one_trial = false;  // the only one of the plot: tags are metrics
};

/// Curves of trials; `data` ranks or groups them. A name that both training and
/// validation report is drawn twice, training dashed.
Figure CurvesFigure(const PlotData& data, std::vector<TrialCurve> curves,
                    const CurvesRequest& request, const PlotLook& look);

/// The validations of each search and its best value so far over the effort,
/// and the trials that failed.
Figure HistoryFigure(const PlotData& data, Effort effort,
                     const std::string& x_label, const PlotLook& look);

/// The distribution of the trials' values: of each search or group.
Figure DistributionFigure(const PlotData& data, const PlotLook& look);

/// The trials by two metrics, and those that no other one dominates. REQUIRES:
/// data.metrics.size() == 2.
Figure ParetoFigure(const PlotData& data, const PlotLook& look);

/// The importance of each hyperparameter for being among the best `quantile` of
/// the trials.
Figure ImportanceFigure(const PlotData& data, double quantile);

/// A line for each trial through its hyperparameters to its value.
Figure ParallelFigure(const PlotData& data, const PlotLook& look);

/// The trials' values over each hyperparameter.
Figure SliceFigure(const PlotData& data, const PlotLook& look);

/// The estimated rank of a trial over two hyperparameters.
Figure ContourFigure(const PlotData& data, const PlotLook& look);

/// The runs of the trials' processes, those that overlap in different rows.
Figure TimelineFigure(const PlotData& data);

/// What a trial in this state did after its last rung.
RungProgress::End RungEnd(State state);

/// Draws how many trials completed each rung, and their later states.
Figure RungsFigure(const PlotData& data);

}  // namespace dtrain
