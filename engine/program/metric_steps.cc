// Which step a printed value belongs to. A program prints the number of a step
// before its values or after them, or none, and a source says which: `step`
// begins a step (kBegin), `step_end` ends one (kEnd), and without either, each
// report that has the searcher's metric is a step (kNone). The values of a step
// are collected into one report, which is sent
//
//   kBegin  when the next step begins, or at the end of the output; with
//           `first_value` as soon as each metric was printed once;
//   kEnd    at the line that ends the step;
//   kNone   when each metric was printed, or the searcher's is printed again.
//
// Steps must not go back. A step that does is ignored with a remark, and so are
// values until steps have grown again.

#include "engine/program/metric_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/text.h"

namespace dtrain {
namespace {

// Largest count that a double holds exactly.
constexpr double kMaxStep = 1e15;

}  // namespace

MetricSteps::MetricSteps(const MetricSource& source,
                         std::string searcher_metric, double from,
                         bool refuses_zero, MetricFindings& findings)
    : bounds_(!source.step.empty()       ? Bounds::kBegin
              : !source.step_end.empty() ? Bounds::kEnd
                                         : Bounds::kNone),
      first_value_(source.first_value),
      searcher_metric_(std::move(searcher_metric)),
      names_(source.names.size()),
      findings_(findings),
      counter_(source, from, refuses_zero, findings) {}

std::optional<double> StepCounter::MoveTo(double written) {
  const auto ignore = [&](const std::string& why) {
    findings_.remarks.push_back({.text = why, .ignored = true});
    return std::nullopt;
  };
  if (written != std::floor(written) || written < 0 || written > kMaxStep) {
    return ignore("the step must be a whole number from 0 to 10^15, got " +
                  FormatNumber(written));
  }
  if (!begun_) began_with_zero_ = written == 0 && !first_step_;
  if (began_with_zero_ && refuses_zero_) {
    findings_.refusal =
        "the first step of the program is 0, which may mean one epoch or none; "
        "set metrics.first_step: 0 (with 'dtrain run' --pattern first_step=0) "
        "if "
        "step 0 is the first epoch of training, or first_step: 1 if it is "
        "before "
        "training";
    return std::nullopt;
  }
  const double count = first_step_ == 0 ? written + 1 : written;
  lost_ = count < at_ && begun_;
  if (lost_) {
    return ignore("step " + FormatNumber(written) + " comes after step " +
                  FormatNumber(this->written()) +
                  "; values are ignored until the step has grown again");
  }
  begun_ = true;
  at_ = count;
  return count;
}

void MetricSteps::Add(const MetricLine& line) {
  if (line.step && bounds_ == Bounds::kBegin) Begin(*line.step);
  for (const auto& [name, value] : line.values) Put(name, value);
  if (line.step && bounds_ == Bounds::kEnd) Finish(*line.step);
  const bool complete = line.whole && values_.size() == names_;
  const bool sends =
      bounds_ == Bounds::kNone || (bounds_ == Bounds::kBegin && first_value_);
  if (complete && sends) Send(counter_.at());
}

std::optional<double> MetricSteps::held() const {
  const bool complete = values_.size() == names_ && Has(searcher_metric_);
  if (bounds_ != Bounds::kBegin || !complete) return std::nullopt;
  return counter_.at();
}

void MetricSteps::End(bool whole) {
  if (!whole && !Has(searcher_metric_)) return;
  if (bounds_ != Bounds::kEnd) return Send(counter_.at());
  if (!Has(searcher_metric_)) return;
  Ignore("'" + searcher_metric_ +
         "' was printed after the last line that matches metrics.step_end");
}

void MetricSteps::Begin(double printed) {
  const double before = counter_.at();
  const bool first = !counter_.begun();
  const auto count = counter_.MoveTo(printed);
  if (!count || (!first && *count == before)) return;
  // Values of the step before are reported at its count.
  Send(before);
  sent_ = false;
  values_.clear();
}

void MetricSteps::Finish(double printed) {
  if (const auto count = counter_.MoveTo(printed)) Send(*count);
  values_.clear();
}

void MetricSteps::Put(const std::string& name, double value) {
  if (counter_.lost() && bounds_ == Bounds::kBegin) return;
  if (bounds_ == Bounds::kBegin && (sent_ || !counter_.begun())) {
    return PutAgain(name, value);
  }
  // The next step begins.
  if (bounds_ == Bounds::kNone && name == searcher_metric_ && Has(name)) {
    Send(counter_.at());
  }
  UpdateMetrics(values_, {{name, value}});
}

// Handles a value before the first step, or after the report of its step.
void MetricSteps::PutAgain(const std::string& name, double value) {
  if (name != searcher_metric_ || !findings_.refusal.empty()) return;
  if (!counter_.begun()) {
    if (std::exchange(warned_of_early_, true)) return;
    return Ignore("'" + name +
                  "' was printed before the first step and is ignored; if the "
                  "program prints a step after its values, replace "
                  "metrics.step by metrics.step_end");
  }
  if (value == result_ || std::exchange(warned_of_again_, true)) return;
  Ignore("'" + name + "' was printed again in step " +
         FormatNumber(counter_.written()) + ", as " + FormatNumber(value) +
         "; " + FormatNumber(result_) +
         " is recorded: all metrics of the step were printed by then");
}

// Reports the values at `count`; without steps, at the next one.
void MetricSteps::Send(double count) {
  if (values_.empty()) return;
  if (bounds_ == Bounds::kNone) {
    count = Has(searcher_metric_) ? counter_.Advance() : count + 1;
  }
  for (const auto& [name, value] : values_) {
    if (name == searcher_metric_) result_ = value;
  }
  findings_.reports.push_back(
      {.count = count, .metrics = std::exchange(values_, {})});
  sent_ = true;
}

bool MetricSteps::Has(std::string_view name) const {
  return std::ranges::any_of(
      values_, [&](const auto& metric) { return metric.first == name; });
}

void MetricSteps::Ignore(const std::string& why) {
  findings_.remarks.push_back({.text = why, .ignored = true});
}

std::optional<double> ParseMetric(std::string_view text) {
  text = Trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (const auto number = ParseFinite(text)) return number;
  const bool negative = text.starts_with('-');
  std::string word(negative ? text.substr(1) : text);
  while (!word.empty() && std::string_view(".,;:)]}").find(word.back()) !=
                              std::string_view::npos) {
    word.pop_back();
  }
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  const double infinity = std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf" || word == "infinity") {
    return negative ? -infinity : infinity;
  }
  return ParseFinite((negative ? "-" : "") + word);
}

}  // namespace dtrain
