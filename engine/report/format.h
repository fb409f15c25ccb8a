#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/report/terminal.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Returns a metric's value with six significant digits, as FormatRounded.
std::string FormatMetric(double value);

/// Returns `value` with `digits` (at most 9) digits after the point.
std::string FormatFixed(double value, int digits);

/// "42%"; 100 only where `progress` is 1.
std::string FormatPercent(double progress);

/// Returns the experiment's progress as FormatPercent does, "-" if it failed.
std::string FormatProgress(const ExperimentRow& row);

/// RFC 3339 UTC to the second, or "-".
std::string FormatTime(const std::optional<Timestamp>& time);

/// A time for people in the local time zone: "just now", "5 min ago" within the
/// last hour, "today 14:03", "yesterday 14:03", "Nov 21 14:03" within 300 days,
/// else "2025-11-21 14:03".
std::string FormatLocalTime(Timestamp time, Timestamp now);

std::string FormatSeconds(double seconds);

/// Returns a JSON value in YAML's flow style: strings without quotes where they
/// cannot be read as another type.
std::string FormatValue(const nlohmann::json& value);

/// Does as FormatValue, with fractions to four digits as FormatRounded, for
/// long lists.
std::string FormatBriefly(const nlohmann::json& value);

/// "lr=0.01 optimizer.name=adam": nested names are joined by dots.
std::string FormatHparams(const nlohmann::json& hparams);
/// Does as FormatHparams, with fractions to four digits, for long lists.
std::string FormatHparamsBriefly(const nlohmann::json& hparams);

/// "loss 0.0312, accuracy 0.984".
std::string FormatMetrics(const MetricValues& values);

/// "0.9841 at batch 3750", or "-".
std::string FormatBest(const std::optional<BestValidation>& best,
                       const Units& units);

/// Returns those of `hparams` that `space`, the configuration's
/// hyperparameters, left open; all of them if nothing was searched.
nlohmann::json SearchedHparams(const nlohmann::json& space,
                               const nlohmann::json& hparams);

/// Returns the other `hparams`; none if nothing was searched.
nlohmann::json ConstantHparams(const nlohmann::json& space,
                               const nlohmann::json& hparams);

/// Returns the seconds that the row's processes have run; for one that runs and
/// was never interrupted, up to `now`.
double ElapsedSeconds(const ExperimentRow& row, Timestamp now);
double ElapsedSeconds(const TrialRow& row, Timestamp now);

/// Shortens the slots of a trial as TrialRow has them: "gpu:0,1 node2/gpu:0".
std::string SlotsText(const std::string& slots);

Tone ChooseTone(State state);

/// Columns of a sparkline in a table.
inline constexpr std::size_t kSparkWidth = 16;

/// Least and greatest of the finite values of curves that are drawn with one
/// scale.
struct CurveRange {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void Add(std::span<const double> values);
};

/// Draws `values`, oldest first, as a curve of one line: a character for each,
/// as high as the value lies in `range`, or between the least and the greatest
/// one that is drawn, in the middle if these are equal. More than `width`
/// values are averaged in groups of adjacent ones. A value that is not finite
/// is a blank, as is a group of them. `utf8`: block characters, else "_.-^".
/// Empty if no value is finite.
std::string Sparkline(std::span<const double> values, std::size_t width,
                      bool utf8, std::optional<CurveRange> range = {});

/// Escapes `text` for XML, between tags and in attributes, and for terminals.
std::string EscapeXml(const std::string& text);

}  // namespace dtrain
