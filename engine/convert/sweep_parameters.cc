// The distributions of W&B, as its JSON schema has them (package `sweeps`,
// config/schema.json), and how its code draws from them (params.py). Quantized
// ones are rounded to a multiple of q; those with `log` in their names take
// exponents of e as bounds, unless the name ends in `_values`.
//
// dtrain has constants, choices, and uniform ranges of numbers or logarithms. A
// distribution that is one of these is converted exactly; multiples of q become
// the list of them, and probabilities a list with repeated values. Others
// become the nearest range, with a warning that says what has changed.

#include "engine/convert/sweep_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/hparam_spec.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

using SweepJson = nlohmann::json;

enum class Shape {
  kConstant,
  kChoice,
  kChoiceWithProbabilities,
  kInteger,
  kUniform,
  kLogOfExponents,
  kLog,
  kInverseLogOfExponents,
  kNormal,
  kLogNormal,
  kBeta,
};

struct Distribution {
  std::string_view name;
  Shape shape;
  bool rounded = false;  // to multiples of q
};

constexpr std::array kDistributions = {
    Distribution{"constant", Shape::kConstant},
    Distribution{"categorical", Shape::kChoice},
    Distribution{"categorical_w_probabilities",
                 Shape::kChoiceWithProbabilities},
    Distribution{"int_uniform", Shape::kInteger},
    Distribution{"uniform", Shape::kUniform},
    Distribution{"q_uniform", Shape::kUniform, true},
    Distribution{"log_uniform", Shape::kLogOfExponents},
    Distribution{"log_uniform_values", Shape::kLog},
    Distribution{"q_log_uniform", Shape::kLogOfExponents, true},
    Distribution{"q_log_uniform_values", Shape::kLog, true},
    Distribution{"inv_log_uniform", Shape::kInverseLogOfExponents},
    Distribution{"inv_log_uniform_values", Shape::kLog},
    Distribution{"normal", Shape::kNormal},
    Distribution{"q_normal", Shape::kNormal, true},
    Distribution{"log_normal", Shape::kLogNormal},
    Distribution{"q_log_normal", Shape::kLogNormal, true},
    Distribution{"beta", Shape::kBeta},
    Distribution{"q_beta", Shape::kBeta, true},
};

// Values in a list for a rounded logarithmic range.
constexpr int kMaxLogSteps = 20;
// Entries of a list that stands for probabilities.
constexpr int kMaxRepeats = 100;

// Keys of a parameter that its distribution reads, besides q.
std::vector<std::string_view> FindUsedKeys(Shape shape) {
  switch (shape) {
    case Shape::kConstant:
      return {"value"};
    case Shape::kChoice:
      return {"values"};
    case Shape::kChoiceWithProbabilities:
      return {"values", "probabilities"};
    case Shape::kInteger:
    case Shape::kUniform:
    case Shape::kLogOfExponents:
    case Shape::kLog:
    case Shape::kInverseLogOfExponents:
      return {"min", "max"};
    case Shape::kNormal:
    case Shape::kLogNormal:
      return {"mu", "sigma"};
    case Shape::kBeta:
      return {"a", "b"};
  }
  return {};
}

// True for an integer that 64 bits hold.
bool FitsInteger(double value) { return std::abs(value) < 0x1p63; }

std::string Text(const SweepJson& value) {
  return value.is_number() ? FormatNumber(value.get<double>()) : value.dump();
}

// One parameter of a sweep.
class SweepParameter {
 public:
  SweepParameter(const Node& node, std::string path, Findings& findings)
      : node_(node), path_(std::move(path)), findings_(findings) {}

  SweepJson Read() {
    const std::optional<Distribution> found = FindDistribution();
    if (!found) return nullptr;
    CheckKeys(*found);
    name_ = found->name;
    rounded_ = found->rounded;
    SweepJson hparam = Convert(found->shape);
    const bool is_range = found->shape != Shape::kConstant &&
                          found->shape != Shape::kChoice &&
                          found->shape != Shape::kChoiceWithProbabilities;
    if (is_range && hparam.is_number()) WarnOfOneValue(hparam);
    return hparam;
  }

 private:
  // Returns the hyperparameter; null, with an error, if it is invalid.
  SweepJson Convert(Shape shape) {
    switch (shape) {
      case Shape::kConstant:
        return Constant();
      case Shape::kChoice:
        return Choice(Values());
      case Shape::kChoiceWithProbabilities:
        return WithProbabilities();
      case Shape::kInteger:
        return Integer();
      case Shape::kUniform:
        return Bounded(false, nullptr);
      case Shape::kLog:
        return Bounded(true, nullptr);
      case Shape::kLogOfExponents:
        return Bounded(true, [](double x) { return std::exp(x); });
      case Shape::kInverseLogOfExponents:
        return Bounded(true, [](double x) { return std::exp(-x); });
      case Shape::kNormal:
        return Normal(false);
      case Shape::kLogNormal:
        return Normal(true);
      case Shape::kBeta:
        return Beta();
    }
    return nullptr;
  }

  void WarnOfOneValue(const SweepJson& value) {
    const Node* q = node_.Find("q");
    Warn(node_, "every trial gets the one value " + Text(value) + ": " +
                    (!rounded_ ? "the bounds are equal"
                     : q == nullptr
                         ? "values are rounded to multiples of q, which is 1 "
                           "as it is missing; add q"
                         : "values are rounded to multiples of q, " + q->text +
                               "; choose a smaller q"));
  }

  // Returns the distribution that is named, or that the keys mean.
  std::optional<Distribution> FindDistribution() {
    std::string name;
    if (const Node* given = node_.Find("distribution")) {
      name = given->text;
    } else if (node_.Find("value") != nullptr) {
      name = "constant";
    } else if (node_.Find("values") != nullptr) {
      const bool weighted = node_.Find("probabilities") != nullptr;
      name = weighted ? "categorical_w_probabilities" : "categorical";
    } else if (node_.Find("min") != nullptr && node_.Find("max") != nullptr) {
      const bool whole = node_.Find("min")->kind == Node::Kind::kInt &&
                         node_.Find("max")->kind == Node::Kind::kInt;
      name = whole ? "int_uniform" : "uniform";
    } else {
      Error(node_, "has no value, values, or min and max; add them");
      return std::nullopt;
    }
    std::vector<std::string> names;
    for (const Distribution& known : kDistributions) {
      if (known.name == name) return known;
      names.emplace_back(known.name);
    }
    Error(*node_.Find("distribution"),
          "unknown distribution '" + name + "'" + DidYouMean(name, names));
    return std::nullopt;
  }

  // Refuses unknown keys and warns of those that the distribution lacks.
  void CheckKeys(const Distribution& distribution) {
    static const std::vector<std::string> kKnown = {
        "value", "values", "min", "max",          "q", "distribution", "mu",
        "sigma", "a",      "b",   "probabilities"};
    const std::vector<std::string_view> used = FindUsedKeys(distribution.shape);
    for (const Node::Entry& entry : node_.entries) {
      if (std::ranges::find(kKnown, entry.key) == kKnown.end()) {
        findings_.UnknownKey(entry.mark, JoinPath(path_, entry.key), entry.key,
                             kKnown);
      } else if (entry.key != "distribution" &&
                 !(entry.key == "q" && distribution.rounded) &&
                 std::ranges::find(used, entry.key) == used.end()) {
        findings_.Warning(entry.mark, JoinPath(path_, entry.key),
                          "has no effect on the distribution " +
                              std::string(distribution.name));
      }
    }
  }

  SweepJson Constant() {
    const Node* value = Need("value");
    if (value == nullptr) return nullptr;
    return Constant(ReadFreeValue(*value, JoinPath(path_, "value"), findings_));
  }

  static SweepJson Constant(SweepJson value) {
    if (!value.is_object()) return value;
    return {{"type", "const"}, {"val", std::move(value)}};
  }

  SweepJson Choice(SweepJson values) {
    if (values.size() == 1) return Constant(values[0]);
    return {{"type", "categorical"}, {"vals", std::move(values)}};
  }

  // Returns the list `values`, which has at least one.
  SweepJson Values() {
    const Node* values = Need("values");
    if (values == nullptr) return SweepJson::array({nullptr});
    if (values->is_list() && !values->items.empty()) {
      return ReadFreeValue(*values, JoinPath(path_, "values"), findings_);
    }
    Error(*values, "expected a list with at least one value");
    return SweepJson::array({nullptr});
  }

  // Repeats each value in proportion to its probability.
  SweepJson WithProbabilities() {
    const SweepJson values = Values();
    const Node* node = Need("probabilities");
    if (node == nullptr) return nullptr;
    const SweepJson weights =
        ReadFreeValue(*node, JoinPath(path_, "probabilities"), findings_);
    double sum = 0;
    bool valid = weights.is_array() && weights.size() == values.size();
    for (std::size_t i = 0; valid && i < weights.size(); ++i) {
      valid = weights[i].is_number() && weights[i] >= 0;
      if (valid) sum += weights[i].get<double>();
    }
    if (!valid || sum <= 0) {
      Error(*node, "expected one number of at least 0 for each value");
      return nullptr;
    }
    for (int total = 1; total <= kMaxRepeats; ++total) {
      SweepJson repeated = SweepJson::array();
      double error = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double share = weights[i].get<double>() / sum * total;
        error = std::max(error, std::abs(share - std::round(share)));
        for (int n = 0; n < std::lround(share); ++n)
          repeated.push_back(values[i]);
      }
      if (repeated.empty() || (error > 1e-6 && total < kMaxRepeats)) continue;
      if (error > 1e-6) {
        Warn(*node, "rounded to hundredths, as dtrain has no probabilities");
      }
      return Choice(std::move(repeated));
    }
    return nullptr;
  }

  SweepJson Integer() {
    const Node* low = NeedNumber("min");
    const Node* high = NeedNumber("max");
    if (low == nullptr || high == nullptr) return nullptr;
    for (const Node* bound : {low, high}) {
      if (bound->kind == Node::Kind::kInt) continue;
      Error(*bound, "expected an integer, got " + Describe(*bound));
      return nullptr;
    }
    if (low->integer == high->integer) return low->integer;
    if (!InOrder(*low, *high)) return nullptr;
    return {
        {"type", "int"}, {"minval", low->integer}, {"maxval", high->integer}};
  }

  // Returns a range from min to max, each converted by `value_of` if that is
  // not null.
  SweepJson Bounded(bool log, double (*value_of)(double)) {
    const Node* low = NeedNumber("min");
    const Node* high = NeedNumber("max");
    if (low == nullptr || high == nullptr) return nullptr;
    if (low->number != high->number && !InOrder(*low, *high)) return nullptr;
    SweepJson from = ToJson(*low);
    SweepJson to = ToJson(*high);
    if (value_of != nullptr) {
      from = value_of(low->number);
      to = value_of(high->number);
    }
    if (from.get<double>() > to.get<double>()) std::swap(from, to);
    if (log && !(from > 0 && std::isfinite(to.get<double>()))) {
      Error(*low, value_of == nullptr
                      ? "expected a number above 0 on a logarithmic scale"
                      : "e to the power of these bounds is not a number above "
                        "0; " +
                            std::string(kValuesInstead));
      return nullptr;
    }
    if (value_of != nullptr && from != to) {
      WarnOfExponents(*low, *high, from, to);
    }
    return Range(std::move(from), std::move(to), log);
  }

  // Warns of bounds that look like values although they are exponents of e:
  // 0.0001 to 0.1, or 16 to 256.
  void WarnOfExponents(const Node& low, const Node& high, const SweepJson& from,
                       const SweepJson& to) {
    constexpr double kLargestLikely = 1e20;
    const bool fractions = low.number >= 0 && low.number < 1 &&
                           (low.number > 0 || high.number <= 1);
    const bool whole = low.number > 0 && low.kind == Node::Kind::kInt &&
                       high.kind == Node::Kind::kInt &&
                       !name_.starts_with("inv_");
    if (!fractions && !whole && to.get<double>() < kLargestLikely) return;
    Warn(low, "min and max of " + name_ +
                  " are exponents of e, so the values are from " +
                  FormatRounded(from.get<double>(), 4) + " to " +
                  FormatRounded(to.get<double>(), 4) + "; for values from " +
                  low.text + " to " + high.text + " use " + name_ + "_values");
  }

  SweepJson Range(SweepJson low, SweepJson high, bool log) {
    if (low == high && !rounded_) return low;
    if (rounded_) return log ? LogMultiples(low, high) : Multiples(low, high);
    return Plain(std::move(low), std::move(high), log);
  }

  static SweepJson Plain(SweepJson low, SweepJson high, bool log) {
    SweepJson range = {{"type", "double"},
                       {"minval", std::move(low)},
                       {"maxval", std::move(high)}};
    if (log) range["log"] = true;
    return range;
  }

  // Returns q; nothing if it is invalid.
  std::optional<SweepJson> Step() {
    const Node* q = node_.Find("q");
    if (q == nullptr) return SweepJson(1);
    if (q->IsNumber() && q->number > 0) return ToJson(*q);
    Error(*q, "expected a number above 0");
    return std::nullopt;
  }

  SweepJson Multiples(const SweepJson& low, const SweepJson& high) {
    const auto q = Step();
    if (!q) return nullptr;
    // W&B rounds to the nearest, so the first and last value may lie outside.
    const double width = q->get<double>();
    const double first = std::round(low.get<double>() / width) * width;
    const double last = std::round(high.get<double>() / width) * width;
    const bool whole = q->is_number_integer();
    if (!CheckMultiples(first, last, whole)) return nullptr;
    const auto as = [&](double value) {
      return whole ? SweepJson(static_cast<std::int64_t>(value))
                   : SweepJson(value);
    };
    if (first == last) return as(first);
    const auto values = ListMultiples(as(first), as(last), *q);
    if (values && !values->empty()) return Choice(*values);
    if (whole) {
      Warn(node_, "q is not kept: more than " + std::to_string(kMaxSteps) +
                      " values; integers instead of multiples of " + Text(*q));
      return {{"type", "int"}, {"minval", as(first)}, {"maxval", as(last)}};
    }
    Warn(node_, "q is not kept: more than " + std::to_string(kMaxSteps) +
                    " values; the range is continuous");
    return Plain(low, high, false);
  }

  // Reports values that are too large. False if there are any.
  bool CheckMultiples(double first, double last, bool whole) {
    const bool fit = whole ? FitsInteger(first) && FitsInteger(last)
                           : std::isfinite(first) && std::isfinite(last);
    if (fit) return true;
    const bool exponents = name_ == "q_log_uniform";
    Error(node_,
          "has values up to " +
              FormatRounded(std::max(std::abs(first), std::abs(last)), 4) +
              ", which is too large for " +
              (whole ? "an integer; " : "a number; ") +
              (exponents ? "min and max are exponents of e: for the "
                           "values themselves, use "
                           "q_log_uniform_values"
                         : "use a smaller range"));
    return false;
  }

  // Returns multiples of q that are evenly spaced on a logarithmic scale.
  SweepJson LogMultiples(const SweepJson& low, const SweepJson& high) {
    const auto q = Step();
    if (!q) return nullptr;
    const double width = q->get<double>();
    if (!CheckMultiples(std::round(low.get<double>() / width) * width,
                        std::round(high.get<double>() / width) * width,
                        q->is_number_integer())) {
      return nullptr;
    }
    const double from = std::log(low.get<double>());
    const double to = std::log(high.get<double>());
    SweepJson values = SweepJson::array();
    for (int i = 0; i < kMaxLogSteps; ++i) {
      const double at = std::exp(from + (to - from) * i / (kMaxLogSteps - 1));
      const double count = std::round(at / width);
      const auto one = ListMultiples(count * width, count * width, *q);
      SweepJson value =
          one && !one->empty() ? (*one)[0] : SweepJson(count * width);
      if (q->is_number_integer()) {
        value = static_cast<std::int64_t>(std::llround(count * width));
      }
      if (values.empty() || values.back() != value) values.push_back(value);
    }
    if (values.size() > 1) {
      Warn(node_, "replaced by a list of " + std::to_string(values.size()) +
                      " multiples of " + Text(*q) +
                      ", evenly spaced on a logarithmic scale from " +
                      Text(values.front()) + " to " + Text(values.back()));
    }
    return Choice(std::move(values));
  }

  // Replaces a normal distribution by two standard deviations on each side.
  SweepJson Normal(bool log) {
    const double mu = NumberOr("mu", 0);
    const double sigma = NumberOr("sigma", 1);
    if (!(sigma > 0)) {
      Error(node_, "expected a sigma above 0");
      return nullptr;
    }
    SweepJson low = mu - 2 * sigma;
    SweepJson high = mu + 2 * sigma;
    if (log) {
      low = std::exp(low.get<double>());
      high = std::exp(high.get<double>());
    }
    if (!std::isfinite(low.get<double>()) ||
        !std::isfinite(high.get<double>()) || (log && low <= 0)) {
      Error(node_,
            "two standard deviations on each side of mu are no range of "
            "numbers; use a smaller sigma, or min and max");
      return nullptr;
    }
    SweepJson from = low;
    SweepJson to = high;
    SweepJson hparam = Range(std::move(low), std::move(high), log);
    if (rounded_ && hparam.is_object() && hparam.contains("vals")) {
      from = hparam["vals"].front();
      to = hparam["vals"].back();
    }
    if (hparam.is_object()) {
      Warn(node_, std::string(log ? "a log-normal" : "a normal") +
                      " distribution is not kept: a range " +
                      (log ? "on a logarithmic scale " : "") + "from " +
                      Text(from) + " to " + Text(to) +
                      " instead, two standard deviations on each side");
    }
    return hparam;
  }

  SweepJson Beta() {
    const double a = NumberOr("a", 1);
    const double b = NumberOr("b", 1);
    if (a != 1 || b != 1) {
      Warn(node_,
           "a beta distribution is not kept: a range from 0 to 1 "
           "instead");
    }
    return Range(0, 1, false);
  }

  double NumberOr(const char* name, double fallback) {
    if (node_.Find(name) == nullptr) return fallback;
    const Node* number = NeedNumber(name);
    return number == nullptr ? fallback : number->number;
  }

  const Node* Need(const char* name) {
    const Node* found = node_.Find(name);
    if (found == nullptr)
      Error(node_, "has no " + std::string(name) + "; add it");
    return found;
  }

  const Node* NeedNumber(const char* name) {
    const Node* found = Need(name);
    if (found == nullptr || found->IsNumber()) return found;
    Error(*found, std::string(name) + ": expected a finite number, got " +
                      Describe(*found));
    return nullptr;
  }

  bool InOrder(const Node& low, const Node& high) {
    if (low.number < high.number) return true;
    Error(high, "max " + high.text + " is below min " + low.text);
    return false;
  }

  void Error(const Node& node, const std::string& what) {
    findings_.Error(node.mark, path_, what);
  }
  void Warn(const Node& node, const std::string& what) {
    findings_.Warning(node.mark, path_, what);
  }

  static constexpr std::string_view kValuesInstead =
      "for the values themselves, use log_uniform_values";

  const Node& node_;
  std::string path_;
  Findings& findings_;
  std::string name_;  // of the distribution
  bool rounded_ = false;
};

// A name that a placeholder of a command can have.
bool IsParameterName(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                              "WXYZ0123456789_.-") == name.npos;
}

}  // namespace

nlohmann::json HyperparametersOfSweep(const Node& parameters,
                                      const std::string& path,
                                      Findings& findings) {
  SweepJson all = SweepJson::object();
  if (!parameters.is_map() || parameters.entries.empty()) {
    findings.Error(parameters.mark, path, "expected a map of parameters");
    return all;
  }
  for (const Node::Entry& entry : parameters.entries) {
    const std::string at = JoinPath(path, entry.key);
    if (!IsParameterName(entry.key)) {
      findings.Error(entry.mark, at,
                     "a name consists of letters, digits, '_', '.' and '-'");
    } else if (!entry.value.is_map()) {
      findings.Error(entry.value.mark, at,
                     "expected a map such as {min: 0, max: 1}, got " +
                         Describe(entry.value));
    } else if (const Node* nested = entry.value.Find("parameters")) {
      if (nested->Find("type") != nullptr) {
        findings.Error(nested->mark, at,
                       "a nested parameter cannot be named 'type' in dtrain; "
                       "rename it");
        continue;
      }
      all[entry.key] =
          HyperparametersOfSweep(*nested, JoinPath(at, "parameters"), findings);
    } else {
      all[entry.key] = SweepParameter(entry.value, at, findings).Read();
    }
  }
  return all;
}

}  // namespace dtrain
