#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/analysis/importance.h"
#include "engine/report/plot.h"

// Parts that the kinds of plots share: who is drawn in which colour, and the
// words of titles and notes.

namespace dtrain {

/// The trials or groups that are told apart in a figure.
struct PlotSubjects {
  std::map<TrialId, MarkStyle> styles;
  std::vector<LegendEntry> legend;
  // "best 10 of 500 trials", "20 of 30 values of lr"; empty if all are in
  // colours.
  std::string shown;
};

/// Colours the groups, if the trials are grouped, else the best `top` trials by
/// the first metric. Gray are trials beyond those and groups beyond the
/// `max_groups` largest.
PlotSubjects ChooseSubjects(const PlotData& data, std::size_t top,
                            LegendEntry::Sample sample,
                            std::size_t max_groups = kMaxLegend);

/// All trials, best first by the first metric; those without a value last.
std::vector<const PlotTrial*> RankedTrials(const PlotData& data);

/// "experiment 3, asha: TEXT" or "experiments 3, 4: TEXT".
std::string PlotTitle(const PlotData& data, const std::string& text);

/// "val_loss at the best validation (smaller is better)", names cut.
std::string MetricLabel(const PlotData& data, std::size_t metric = 0);

/// "3 asha".
std::string SearchName(const PlotSearch& search);

/// "by optimizer" if the trials are grouped, else empty.
std::string GroupedText(const PlotData& data);

/// A name, cut so that the text around it stays visible.
std::string ShortName(const std::string& name);

/// Adds a note on trials that have no finite value of a metric.
void AddMissingValuesNote(const PlotData& data, Figure& figure);

/// The trials with a finite value of the first metric.
std::vector<TrialOutcome> FiniteOutcomes(const PlotSearch& search);

/// The axes of one search that a figure has room for.
struct ChosenAxes {
  std::vector<std::size_t> axes;  // indices
  std::string shown;              // "6 of 200 hyperparameters", or empty
};

/// Returns the axes of the named hyperparameters, else all if they are at most
/// `most`, else the most important ones.
ChosenAxes ChooseAxes(const PlotSearch& search, const PlotMetric& metric,
                      std::span<const std::string> names, std::size_t most);

/// "experiment 3, asha" as the title of a panel among several; else empty.
std::string PanelTitle(const PlotData& data, const PlotSearch& search);

/// More panels would be too small, or too long for a terminal.
inline constexpr std::size_t kMaxPanels = 9;

/// Removes the panels beyond kMaxPanels, with a note.
void LimitPanels(Figure& figure);

/// Limits an axis of values to those that are no outliers (FindRobustLimits),
/// with arrows and a note for the others; not if it is logarithmic, has limits,
/// or `look` is of all values. `lows`, `highs`: as there.
void LimitOutliers(const PlotLook& look, std::vector<double> lows,
                   std::vector<double> highs, ChartAxis& axis, Figure& figure);

/// Adds that note on trials beyond the limits.
void AddOutliersNote(std::size_t count, const std::string& axis,
                     Figure& figure);

/// The finite values of the first metric of these trials.
std::vector<double> FiniteValues(const PlotSearch& search);

/// Joins those of `parts` that are not empty by commas.
std::string JoinParts(std::span<const std::string> parts);

}  // namespace dtrain
