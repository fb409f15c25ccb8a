#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Report that was found in what a program writes: a validation if it has the
/// searcher's metric.
struct FoundReport {
  double count = 0;  // in the unit of the search's lengths
  MetricValues metrics;
};

/// Findings of the readers of a program's metrics.
struct MetricFindings {
  struct Remark {
    std::string text;
    bool ignored = false;  // something was not recorded because of it
  };

  std::deque<FoundReport> reports;
  std::vector<Remark> remarks;
  std::string refusal;  // why the program cannot be run like this, or empty
};

/// Values in one line of a program's output.
struct MetricLine {
  std::optional<double> step;  // as it was printed
  MetricValues values;
  bool whole = true;  // false: the program may overwrite it
};

/// Turns steps as a program writes them into counts. Pure.
class StepCounter {
 public:
  /// `from`: the count that the program starts from. `refuses_zero`: the first
  /// step must not be 0 unless `source.first_step` says what that means.
  StepCounter(const MetricSource& source, double from, bool refuses_zero,
              MetricFindings& findings)
      : first_step_(source.first_step),
        refuses_zero_(refuses_zero),
        findings_(findings),
        at_(from) {}

  /// Moves to a step and returns its count; nothing, with a remark or a
  /// refusal, if it is no step or goes back.
  std::optional<double> MoveTo(double written);
  /// Moves to the next step.
  double Advance() { return ++at_; }

  /// Count of the last step.
  double at() const { return at_; }
  /// The last step, as the program writes it.
  double written() const { return first_step_ == 0 ? at_ - 1 : at_; }
  /// True after the first step.
  bool begun() const { return begun_; }
  /// True after a step that went back, until one that does not.
  bool lost() const { return lost_; }
  /// True if the first step was 0 and nothing says what that means.
  bool began_with_zero() const { return began_with_zero_; }

 private:
  std::optional<std::int64_t> first_step_;
  bool refuses_zero_;
  MetricFindings& findings_;
  double at_;
  bool begun_ = false;
  bool lost_ = false;
  bool began_with_zero_ = false;
};

/// Collects values into one report for each step, by the rules of
/// docs/protocol.md. Pure.
class MetricSteps {
 public:
  /// See StepCounter.
  MetricSteps(const MetricSource& source, std::string searcher_metric,
              double from, bool refuses_zero, MetricFindings& findings);

  /// Adds the next line.
  void Add(const MetricLine& line);
  /// Reports the values of the last step: there is no more output. Without
  /// `whole`, the program did not finish that step, so only a validation
  /// counts.
  void End(bool whole);
  /// Returns the count of the step whose metrics were all printed and wait for
  /// its end, if there is one.
  std::optional<double> held() const;
  /// Reports that step now. REQUIRES: held().
  void Settle() { Send(counter_.at()); }

  bool began_with_zero() const { return counter_.began_with_zero(); }

 private:
  enum class Bounds { kNone, kBegin, kEnd };

  void Begin(double printed);
  void Finish(double printed);
  void Put(const std::string& name, double value);
  void PutAgain(const std::string& name, double value);
  void Send(double count);
  bool Has(std::string_view name) const;
  void Ignore(const std::string& why);

  const Bounds bounds_;
  const bool first_value_;
  const std::string searcher_metric_;
  const std::size_t names_;  // number of metrics
  MetricFindings& findings_;

  StepCounter counter_;
  bool sent_ = false;  // the step's report
  bool warned_of_early_ = false;
  bool warned_of_again_ = false;
  MetricValues values_;  // of the step
  double result_ = 0;    // the searcher's metric in its report
};

/// Returns the number in a text that an expression has captured, with NaN and
/// infinities as Python, C++ and JavaScript print them. A point, comma or
/// bracket that follows the number is not part of it.
std::optional<double> ParseMetric(std::string_view text);

}  // namespace dtrain
