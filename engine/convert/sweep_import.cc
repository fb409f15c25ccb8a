// A sweep of W&B becomes an experiment whose program gets its hyperparameters
// by placeholders. The default command is
// [${env}, ${interpreter}, ${program}, ${args}]; W&B replaces a word that is a
// macro by words (wandb_agent.py), and leaves out an unknown one.
//
// Macros that no placeholder can express are written as shell code that runs
// before the program: a flag that is there only if its parameter is true, and
// the file of ${args_json_file}.

#include "engine/convert/sweep_import.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <re2/re2.h>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/hparam_spec.h"
#include "engine/config/node.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"
#include "engine/config/yaml_reader.h"
#include "engine/config/yaml_text.h"
#include "engine/convert/inline_experiment.h"
#include "searchers/number_range.h"

namespace dtrain {
namespace {

using ImportJson = nlohmann::json;

constexpr std::int64_t kTrialsWithoutCap = 100;

// --- Distributions ---

// The distributions of W&B, as its JSON schema has them (package `sweeps`,
// config/schema.json), and how its code draws from them (params.py). Quantized
// ones are rounded to a multiple of q; those with `log` in their names take
// exponents of e as bounds, unless the name ends in `_values`.
//
// dtrain has constants, choices, uniform ranges of numbers, logarithms and
// steps, and normal distributions. A distribution that is one of these is
// converted exactly; multiples of q become steps, and probabilities a list with
// repeated values. Others become the nearest range. A warning says what has
// changed.

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

std::string Text(const ImportJson& value) {
  return value.is_number() ? FormatNumber(value.get<double>()) : value.dump();
}

// One parameter of a sweep.
class SweepParameter {
 public:
  // `ends_are_known`: whether it was said how likely the ends of a rounded
  // range are.
  SweepParameter(const Node& node, std::string path, Findings& findings,
                 bool& ends_are_known)
      : node_(node),
        path_(std::move(path)),
        findings_(findings),
        ends_are_known_(ends_are_known) {}

  ImportJson Read() {
    const std::optional<Distribution> found = FindDistribution();
    if (!found) return nullptr;
    static const std::vector<std::string> kKnown = {
        "value", "values", "min", "max",          "q", "distribution", "mu",
        "sigma", "a",      "b",   "probabilities"};
    const std::vector<std::string_view> used = FindUsedKeys(found->shape);
    for (const Node::Entry& entry : node_.entries) {
      if (std::ranges::find(kKnown, entry.key) == kKnown.end()) {
        findings_.UnknownKey(entry.mark, JoinPath(path_, entry.key), entry.key,
                             kKnown);
      } else if (entry.key != "distribution" &&
                 !(entry.key == "q" && found->rounded) &&
                 std::ranges::find(used, entry.key) == used.end()) {
        findings_.Warning(
            entry.mark, JoinPath(path_, entry.key),
            "has no effect on the distribution " + std::string(found->name));
      }
    }
    name_ = found->name;
    rounded_ = found->rounded;
    ImportJson hparam = Convert(found->shape);
    const bool is_range = found->shape != Shape::kConstant &&
                          found->shape != Shape::kChoice &&
                          found->shape != Shape::kChoiceWithProbabilities;
    if (is_range && hparam.is_number()) {
      const Node* q = node_.Find("q");
      Warn(node_, "every trial gets the one value " + Text(hparam) + ": " +
                      (!rounded_ ? "the bounds are equal"
                       : q == nullptr
                           ? "values are rounded to multiples of q, which is 1 "
                             "as it is missing; add q"
                           : "values are rounded to multiples of q, " +
                                 q->text + "; choose a smaller q"));
    }
    return hparam;
  }

 private:
  // Returns the hyperparameter; null, with an error, if it is invalid.
  ImportJson Convert(Shape shape) {
    switch (shape) {
      case Shape::kConstant:
        return Constant();
      case Shape::kChoice:
        return Choice(Values());
      case Shape::kChoiceWithProbabilities:
        return WithProbabilities();
      case Shape::kInteger: {
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
        return {{"type", "int"},
                {"minval", low->integer},
                {"maxval", high->integer}};
      }
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
      case Shape::kBeta: {
        const double a = NumberOr("a", 1);
        const double b = NumberOr("b", 1);  // reads both: each may be wrong
        if (a != 1 || b != 1) {
          Warn(node_,
               "a beta distribution is not kept: a range from 0 to 1 instead");
        }
        return Range(0, 1, false);
      }
    }
    return nullptr;
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

  ImportJson Constant() {
    const Node* value = Need("value");
    if (value == nullptr) return nullptr;
    return Constant(ReadFreeValue(*value, JoinPath(path_, "value"), findings_));
  }

  static ImportJson Constant(ImportJson value) {
    if (!value.is_object()) return value;
    return {{"type", "const"}, {"val", std::move(value)}};
  }

  ImportJson Choice(ImportJson values) {
    if (values.size() == 1) return Constant(values[0]);
    return {{"type", "categorical"}, {"vals", std::move(values)}};
  }

  // Returns the list `values`, which has at least one.
  ImportJson Values() {
    const Node* values = Need("values");
    if (values == nullptr) return ImportJson::array({nullptr});
    if (values->is_list() && !values->items.empty()) {
      return ReadFreeValue(*values, JoinPath(path_, "values"), findings_);
    }
    Error(*values, "expected a list with at least one value");
    return ImportJson::array({nullptr});
  }

  // Repeats each value in proportion to its probability.
  ImportJson WithProbabilities() {
    const ImportJson values = Values();
    const Node* node = Need("probabilities");
    if (node == nullptr) return nullptr;
    const ImportJson weights =
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
      ImportJson repeated = ImportJson::array();
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

  // Returns a range from min to max, each converted by `value_of` if that is
  // not null.
  ImportJson Bounded(bool log, double (*value_of)(double)) {
    const Node* low = NeedNumber("min");
    const Node* high = NeedNumber("max");
    if (low == nullptr || high == nullptr) return nullptr;
    if (low->number != high->number && !InOrder(*low, *high)) return nullptr;
    ImportJson from = ToJson(*low);
    ImportJson to = ToJson(*high);
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
      // Bounds that look like values although they are exponents of e: 0.0001
      // to 0.1, or 16 to 256.
      constexpr double kLargestLikely = 1e20;
      const bool fractions = low->number >= 0 && low->number < 1 &&
                             (low->number > 0 || high->number <= 1);
      const bool whole = low->number > 0 && low->kind == Node::Kind::kInt &&
                         high->kind == Node::Kind::kInt &&
                         !name_.starts_with("inv_");
      if (fractions || whole || to.get<double>() >= kLargestLikely) {
        Warn(*low, "min and max of " + name_ +
                       " are exponents of e, so the values are from " +
                       FormatRounded(from.get<double>(), 4) + " to " +
                       FormatRounded(to.get<double>(), 4) +
                       "; for values from " + low->text + " to " + high->text +
                       " use " + name_ + "_values");
      }
    }
    ImportJson range = Range(std::move(from), std::move(to), log);
    const bool is_exact = !rounded_ || !range.is_object() ||
                          range.contains("vals") || ends_are_known_;
    if (is_exact) return range;
    ends_are_known_ = true;
    Warn(node_,
         "the first and the last value are as likely as the others; W&B draws "
         "them half as often. The same holds for all parameters with q");
    return range;
  }

  ImportJson Range(ImportJson low, ImportJson high, bool log) {
    if (low == high && !rounded_) return low;
    if (rounded_) return Multiples(low, high, log);
    return Plain(std::move(low), std::move(high), log);
  }

  static ImportJson Plain(ImportJson low, ImportJson high, bool log) {
    ImportJson range = {{"type", "double"},
                        {"minval", std::move(low)},
                        {"maxval", std::move(high)}};
    if (log) range["log"] = true;
    return range;
  }

  // Returns q; nothing if it is invalid.
  std::optional<ImportJson> Step() {
    const Node* q = node_.Find("q");
    if (q == nullptr) return ImportJson(1);
    if (q->IsNumber() && q->number > 0) return ToJson(*q);
    Error(*q, "expected a number above 0");
    return std::nullopt;
  }

  ImportJson Multiples(const ImportJson& low, const ImportJson& high,
                       bool log) {
    const auto q = Step();
    if (!q) return nullptr;
    const double width = q->get<double>();
    if (!CheckMultiples(std::round(low.get<double>() / width) * width,
                        std::round(high.get<double>() / width) * width,
                        q->is_number_integer())) {
      return nullptr;
    }
    if (log) return LogMultiples(low, high, *q);
    return RangeOfMultiples(low, high, *q, /*nearest=*/true).value_or(nullptr);
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
  ImportJson LogMultiples(const ImportJson& low, const ImportJson& high,
                          const ImportJson& q) {
    const double width = q.get<double>();
    const double least = std::round(low.get<double>());
    const double most = std::round(high.get<double>());
    if (q == 1 && least >= 1 && least < most) {
      return {{"type", "int"},
              {"minval", static_cast<std::int64_t>(least)},
              {"maxval", static_cast<std::int64_t>(most)},
              {"log", true}};
    }
    const double from = std::log(low.get<double>());
    const double to = std::log(high.get<double>());
    ImportJson values = ImportJson::array();
    for (int i = 0; i < kMaxLogSteps; ++i) {
      const double at = std::exp(from + (to - from) * i / (kMaxLogSteps - 1));
      const double count = std::round(at / width);
      ImportJson value = AddSteps(0, count, width);
      if (q.is_number_integer()) {
        value = static_cast<std::int64_t>(std::llround(count * width));
      }
      if (values.empty() || values.back() != value) values.push_back(value);
    }
    if (values.size() > 1) {
      Warn(node_, "replaced by a list of " + std::to_string(values.size()) +
                      " multiples of " + Text(q) +
                      ", evenly spaced on a logarithmic scale from " +
                      Text(values.front()) + " to " + Text(values.back()));
    }
    return Choice(std::move(values));
  }

  // Replaces a rounded normal distribution by two standard deviations on each
  // side.
  ImportJson Normal(bool log) {
    const double mu = NumberOr("mu", 0);
    const double sigma = NumberOr("sigma", 1);
    if (!(sigma > 0)) {
      Error(node_, "expected a sigma above 0");
      return nullptr;
    }
    if (!rounded_) {
      ImportJson range = {{"type", "normal"}, {"mean", mu}, {"std", sigma}};
      if (log) range["log"] = true;
      if (NormalRange(range).IsRepresentable()) return range;
      Error(node_, "gives values that no number can represent" +
                       std::string(log ? ": mu and sigma are those of the "
                                         "natural logarithm"
                                       : "; use a smaller sigma"));
      return nullptr;
    }
    ImportJson low = mu - 2 * sigma;
    ImportJson high = mu + 2 * sigma;
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
    ImportJson from = low;
    ImportJson to = high;
    ImportJson hparam = Range(std::move(low), std::move(high), log);
    if (hparam.is_object()) {
      const bool listed = hparam.contains("vals");
      from = listed ? hparam["vals"].front() : hparam["minval"];
      to = listed ? hparam["vals"].back() : hparam["maxval"];
      Warn(node_,
           std::string(log ? "a rounded log-normal" : "a rounded normal") +
               " distribution is not kept: a range " +
               (log ? "on a logarithmic scale " : "") + "from " + Text(from) +
               " to " + Text(to) +
               " instead, two standard deviations on each side");
    }
    return hparam;
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
  bool& ends_are_known_;
  std::string name_;  // of the distribution
  bool rounded_ = false;
};

ImportJson ReadParameters(const Node& parameters, const std::string& path,
                          Findings& findings, bool& ends_are_known) {
  ImportJson all = ImportJson::object();
  if (!parameters.is_map() || parameters.entries.empty()) {
    findings.Error(parameters.mark, path, "expected a map of parameters");
    return all;
  }
  for (const Node::Entry& entry : parameters.entries) {
    const std::string at = JoinPath(path, entry.key);
    // A name that a placeholder of a command can have.
    constexpr std::string_view kNameCharacters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (entry.key.empty() ||
        entry.key.find_first_not_of(kNameCharacters) != entry.key.npos) {
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
      all[entry.key] = ReadParameters(*nested, JoinPath(at, "parameters"),
                                      findings, ends_are_known);
    } else {
      all[entry.key] =
          SweepParameter(entry.value, at, findings, ends_are_known).Read();
    }
  }
  return all;
}

// --- Types of YAML 1.1, and the command ---

// Returns the scalar as YAML 1.1 reads it, if that differs from YAML 1.2: on
// and yes are true, 0777 is octal, 0b11 binary, 1:30 has base 60, and 0o17 and
// 089 are strings.
std::optional<Node> ReadAsYaml11(const Node& node) {
  // https://yaml.org/type/bool.html and https://yaml.org/type/int.html
  static const RE2 kTrue("yes|Yes|YES|on|On|ON");
  static const RE2 kFalse("no|No|NO|off|Off|OFF");
  static const RE2 kText("[-+]?0(?:o[0-7]+|[0-9_]*[89][0-9_]*)");
  static const RE2 kBinary("([-+]?)0b_*([01][01_]*)");
  static const RE2 kOctal("([-+]?)0_*([0-7][0-7_]*)");
  static const RE2 kBase60("([-+]?)([1-9][0-9_]*(?::[0-5]?[0-9])+)");
  const std::string& text = node.text;
  if (RE2::FullMatch(text, kTrue)) return PlainScalar("true");
  if (RE2::FullMatch(text, kFalse)) return PlainScalar("false");
  if (RE2::FullMatch(text, kText)) return QuotedScalar(text);
  std::string sign, digits;
  const bool is_binary = RE2::FullMatch(text, kBinary, &sign, &digits);
  const bool is_octal =
      !is_binary && RE2::FullMatch(text, kOctal, &sign, &digits);
  if (!is_binary && !is_octal &&
      !RE2::FullMatch(text, kBase60, &sign, &digits)) {
    return std::nullopt;
  }
  std::erase(digits, '_');
  const int base = is_binary ? 2 : is_octal ? 8 : 10;
  std::int64_t value = 0;
  for (const std::string& part : Split(digits, ':')) {
    std::int64_t number = 0;
    const auto end =
        std::from_chars(part.data(), part.data() + part.size(), number, base);
    if (end.ec != std::errc() || __builtin_mul_overflow(value, 60, &value) ||
        __builtin_add_overflow(value, number, &value)) {
      return PlainScalar("1" + std::string(400, '0'));  // too large
    }
  }
  return PlainScalar(std::to_string(sign == "-" ? -value : value));
}

// Gives the scalars without quotes the types of YAML 1.1, which W&B reads.
void TypeAsYaml11(Node& node, const std::string& path, Findings& findings) {
  for (Node& item : node.items) TypeAsYaml11(item, path, findings);
  for (Node::Entry& entry : node.entries) {
    TypeAsYaml11(entry.value, JoinPath(path, entry.key), findings);
  }
  if (!node.IsScalar() || node.quoted || node.text.empty()) return;
  std::optional<Node> typed = ReadAsYaml11(node);
  if (!typed) return;
  findings.Warning(node.mark, path,
                   "'" + node.text + "' is " + Describe(*typed) +
                       ", as in YAML 1.1, which W&B reads; quote it for the "
                       "text");
  typed->mark = node.mark;
  node = *std::move(typed);
}

// Doubles the braces of a literal text.
std::string Literal(const std::string& text) {
  std::string out;
  for (const char c : text) out.append(c == '{' || c == '}' ? 2 : 1, c);
  return out;
}

// One hyperparameter without those nested in it.
struct Leaf {
  std::string name;   // dotted
  ImportJson* value;  // a range or a constant, in the configuration
};

void CollectLeaves(ImportJson& map, const std::string& above,
                   std::vector<Leaf>& leaves) {
  for (auto& [key, value] : map.items()) {
    if (value.is_object() && !value.contains("type")) {
      CollectLeaves(value, above + key + ".", leaves);
    } else {
      leaves.push_back({above + key, &value});
    }
  }
}

// Returns all values that the hyperparameter can have; none for a range.
std::vector<ImportJson*> ListValues(ImportJson& hparam) {
  if (!hparam.is_object()) return {&hparam};
  if (hparam["type"] == "const") return {&hparam["val"]};
  std::vector<ImportJson*> values;
  if (hparam["type"] != "categorical") return values;
  for (ImportJson& value : hparam["vals"]) values.push_back(&value);
  return values;
}

// Writes the command of a sweep.
class SweepCommand {
 public:
  SweepCommand(const Node& root, ImportJson& hyperparameters,
               Findings& findings)
      : root_(root), findings_(findings) {
    CollectLeaves(hyperparameters, "", leaves_);
  }

  // Returns the entrypoint.
  ImportJson Write() {
    const Node* command = root_.Find("command");
    if (command == nullptr) {
      for (const auto* macro : {"interpreter", "program", "args"}) {
        Expand(macro, root_);
      }
    } else if (!command->is_list() || command->items.empty()) {
      findings_.Error(command->mark, "command", "expected a list of words");
    } else {
      for (const Node& item : command->items) {
        const std::string& word = item.text;
        if (word.find("${envvar:") != word.npos) {
          findings_.Error(item.mark, "command",
                          "'" + word +
                              "': dtrain does not replace variables of the "
                              "environment; write the value");
        } else if (word.starts_with("${") && word.ends_with("}")) {
          Expand(word.substr(2, word.size() - 3), item);
        } else {
          words_.push_back(Literal(word));
        }
      }
    }
    if (words_.empty() && findings_.errors() == 0) {
      findings_.Error(root_.mark, "command", "is empty; add ${program}");
    }
    if (!before_.empty()) {
      // The code runs before the program, whose words are the arguments "$@".
      std::vector<std::string> words = {"sh", "-c",
                                        Literal(before_ + "exec \"$@\""), "sh"};
      if (!json_.empty()) words.push_back(json_);
      words.insert(words.end(), words_.begin(), words_.end());
      words_ = std::move(words);
    }
    if (passes_nothing_) {
      findings_.Warning(root_.mark, "command",
                        "passes no parameters; the program must read them "
                        "from dtrain (docs/protocol.md)");
    }
    return {{"command", words_}};
  }

  /// The script of the command, as the sweep names it; empty if it has none.
  const std::string& program() const { return program_; }

 private:
  void Expand(const std::string& macro, const Node& node) {
    if (macro == "env") return;  // dtrain searches PATH as well
    if (macro == "interpreter") return words_.emplace_back("python3"), void();
    if (macro == "program") return AddProgram(node);
    if (macro == "args_json") return AddJson(words_);
    if (macro == "args_json_file") {
      const std::string file = "sweep_args.json";
      std::vector<std::string> document;
      AddJson(document);
      json_ = document.front();
      before_ = "printf %s \"$1\" > " + file + "; shift; " + before_;
      words_.push_back(file);
      return;
    }
    if (macro == "args_no_boolean_flags") return AddFlags();
    struct Form {
      std::string_view macro;
      std::string_view before;
      bool two_words = false;
    };
    static constexpr std::array kForms = {
        Form{"args", "--"}, Form{"args_no_equals", "--", true},
        Form{"args_no_hyphens", ""}, Form{"args_append_hydra", "+"},
        Form{"args_override_hydra", "++"}};
    for (const Form& form : kForms) {
      if (form.macro != macro) continue;
      for (const Leaf& leaf : leaves_) {
        AddArgument(leaf, form.before, form.two_words);
      }
      return;
    }
    findings_.Warning(node.mark, "command",
                      "unknown macro ${" + macro + "} is left out, as in W&B");
  }

  void AddProgram(const Node& node) {
    const Node* program = root_.Find("program");
    if (program != nullptr && !program->text.empty()) {
      program_ = program->text;
      return words_.push_back(Literal(program->text));
    }
    findings_.Error(node.mark, "program",
                    "required but missing; add the script to run");
  }

  // Adds `--lr={lr}`.
  void AddArgument(const Leaf& leaf, std::string_view before, bool two_words) {
    passes_nothing_ = false;
    SpellAsPython(leaf);
    const std::string value = "{" + leaf.name + "}";
    const std::string name = std::string(before) + leaf.name;
    if (two_words) {
      words_.push_back(name);
      words_.push_back(value);
    } else {
      words_.push_back(name + "=" + value);
    }
  }

  // W&B passes the texts True, False and None; a placeholder passes true, false
  // and null.
  void SpellAsPython(const Leaf& leaf) {
    bool changed = false;
    bool structured = false;
    for (ImportJson* value : ListValues(*leaf.value)) {
      structured |= value->is_structured();
      if (value->is_boolean() || value->is_null()) {
        changed = true;
        *value = value->is_null()     ? "None"
                 : value->get<bool>() ? "True"
                                      : "False";
      }
    }
    if (changed) {
      Warn(leaf,
           "true, false and null become the texts True, False and None, "
           "which W&B passes");
    }
    if (structured) {
      Warn(leaf, "a list or map is passed as JSON, not as Python writes it");
    }
    if (leaf.name.find('.') != leaf.name.npos && IsNested(leaf)) {
      Warn(leaf,
           "is an argument of its own; W&B passes one argument for the "
           "whole map");
    }
  }

  bool IsNested(const Leaf& leaf) const {
    const Node* parameters = root_.Find("parameters");
    return parameters == nullptr || parameters->Find(leaf.name) == nullptr;
  }

  // Adds a flag for each parameter that is true, and an argument for others.
  void AddFlags() {
    for (const Leaf& leaf : leaves_) {
      const std::vector<ImportJson*> values = ListValues(*leaf.value);
      const auto is_bool = [](const ImportJson* one) {
        return one->is_boolean();
      };
      if (!std::ranges::any_of(values, is_bool)) {
        AddArgument(leaf, "--", false);
        continue;
      }
      passes_nothing_ = false;
      if (!std::ranges::all_of(values, is_bool)) {
        Warn(leaf, "has values besides true and false; these are not passed");
      }
      const bool is_constant = leaf.value->is_boolean();
      if (is_constant && leaf.value->get<bool>()) {
        words_.push_back("--" + leaf.name);
      } else if (!is_constant) {
        std::string variable = "DTRAIN_HPARAM_" + leaf.name;
        std::ranges::replace_if(
            variable, [](char c) { return c == '.' || c == '-'; }, '_');
        before_ += "[ \"$" + variable + "\" != true ] || set -- \"$@\" --" +
                   leaf.name + "; ";
      }
    }
  }

  // Adds the parameters as one JSON document.
  void AddJson(std::vector<std::string>& words) {
    passes_nothing_ = false;
    std::string text;
    for (const Leaf& leaf : leaves_) {
      text += (text.empty() ? "" : ", ") + ImportJson(leaf.name).dump() + ": " +
              JsonValue(leaf);
    }
    words.push_back("{{" + text + "}}");
  }

  std::string JsonValue(const Leaf& leaf) {
    if (leaf.name.find('.') != leaf.name.npos && IsNested(leaf)) {
      Warn(leaf, "has its dotted name in ${args_json}, not a map in a map");
    }
    const std::vector<ImportJson*> values = ListValues(*leaf.value);
    const auto is_text = [](const ImportJson* one) { return one->is_string(); };
    const std::string placeholder = "{" + leaf.name + "}";
    if (!std::ranges::any_of(values, is_text)) return placeholder;
    const auto is_plain = [](const ImportJson* one) {
      return one->dump() == "\"" + one->get<std::string>() + "\"";
    };
    if (!std::ranges::all_of(values, is_text) ||
        !std::ranges::all_of(values, is_plain)) {
      findings_.Error(root_.mark, "parameters." + leaf.name,
                      "has texts beside other values, or texts with quotes, "
                      "which ${args_json} cannot pass here");
    }
    return "\"" + placeholder + "\"";
  }

  void Warn(const Leaf& leaf, const std::string& what) {
    const Node* parameters = root_.Find("parameters");
    Mark mark = parameters->mark;
    if (const Node* parameter = parameters->Find(leaf.name)) {
      mark = parameter->mark;
    }
    findings_.Warning(mark, "parameters." + leaf.name, what);
  }

  const Node& root_;
  Findings& findings_;
  std::vector<Leaf> leaves_;
  std::vector<std::string> words_;  // templates
  std::string before_;              // shell code that runs before the program
  std::string json_;                // its first argument, if it is not empty
  std::string program_;
  bool passes_nothing_ = true;
};

// Reads the keys of a sweep but its parameters and its command.
class SweepReader {
 public:
  SweepReader(const Node& root, const SweepOptions& options, Findings& findings)
      : root_(root), options_(options), findings_(findings) {}

  ImportJson Read() {
    static const std::vector<std::string> kRead = {
        "command", "description", "early_terminate", "method", "metric",
        "name",    "parameters",  "program",         "run_cap"};
    static const std::vector<std::string> kWithoutUse = {
        "apiVersion", "controller", "entity",  "image_uri", "job",
        "kind",       "metrics",    "project", "scheduler"};
    for (const Node::Entry& entry : root_.entries) {
      if (std::ranges::find(kRead, entry.key) != kRead.end()) continue;
      if (std::ranges::find(kWithoutUse, entry.key) != kWithoutUse.end()) {
        findings_.Warning(entry.mark, entry.key,
                          "has no counterpart in dtrain");
      } else {
        findings_.Warning(
            entry.mark, entry.key,
            "unknown key of a sweep" + DidYouMean(entry.key, kRead));
      }
    }
    ImportJson config = ImportJson::object();
    for (const auto* key : {"name", "description"}) {
      const Node* text = root_.Find(key);
      if (text != nullptr && !text->text.empty()) config[key] = text->text;
    }
    const Node* parameters = root_.Find("parameters");
    if (parameters == nullptr) {
      findings_.Error(root_.mark, "parameters", "required but missing; add it");
      return config;
    }
    bool ends_are_known = false;
    ImportJson hyperparameters =
        ReadParameters(*parameters, "parameters", findings_, ends_are_known);
    config["searcher"] = Searcher();
    if (findings_.errors() == 0) {
      SweepCommand command(root_, hyperparameters, findings_);
      config["entrypoint"] = command.Write();
      program_ = command.program();
    }
    if (method_ == "grid") CheckGrid(hyperparameters, "parameters");
    config["hyperparameters"] = std::move(hyperparameters);
    return config;
  }

  const std::string& program() const { return program_; }

 private:
  ImportJson Searcher() {
    const Node* method = root_.Find("method");
    const std::vector<std::string> methods = {"grid", "random", "bayes"};
    if (method == nullptr) {
      findings_.Error(root_.mark, "method",
                      "required but missing; add grid, random or bayes");
    } else if (method_ = method->text;
               std::ranges::find(methods, method_) == methods.end()) {
      findings_.Error(method->mark, "method",
                      "expected grid, random or bayes, got '" + method_ + "'" +
                          DidYouMean(method_, methods));
    }
    ImportJson searcher = {{"name", method_ == "grid" ? "grid" : "random"}};
    AddMetric(searcher);
    if (const Node* early = root_.Find("early_terminate")) {
      AddEarlyTermination(*early, searcher);
    } else if (!options_.max_length.empty()) {
      searcher["max_length"] = Length();
    }
    // The model of W&B proposes points of runs that train to their end. With
    // one rung that of bayesian_asha does the same.
    if (method_ == "bayes" && !searcher.contains("max_length")) {
      findings_.Warning(root_.Find("method")->mark, "method",
                        "bayes becomes a random search, because bayesian_asha "
                        "must know the length of a run; add --max-length "
                        "UNIT=N, such as epochs=27");
    } else if (method_ == "bayes") {
      const bool has_rungs = searcher.erase("stop_once") > 0;
      searcher["name"] = "bayesian_asha";
      if (!has_rungs) searcher["num_rungs"] = 1;
      findings_.Warning(
          root_.Find("method")->mark, "method",
          has_rungs
              ? "bayes becomes searcher bayesian_asha: a model chooses "
                "hyperparameters and which paused trial resumes; a script that "
                "does not resume from its checkpoint starts from scratch"
              : "bayes becomes searcher bayesian_asha with one rung: a model "
                "chooses hyperparameters, and every trial trains to "
                "max_length");
    }
    AddTrials(searcher);
    return searcher;
  }

  void AddMetric(ImportJson& searcher) {
    const Node* metric = root_.Find("metric");
    const Node* name = metric == nullptr ? nullptr : metric->Find("name");
    const Node* goal = metric == nullptr ? nullptr : metric->Find("goal");
    std::string goal_text = goal == nullptr ? "minimize" : goal->text;
    if (!options_.metric.empty()) {
      searcher["metric"] = options_.metric;
      goal_text = options_.maximize ? "maximize" : "minimize";
    } else if (name == nullptr || name->text.empty()) {
      findings_.Error(metric == nullptr ? root_.mark : metric->mark, "metric",
                      "has no name of the metric that decides which trial is "
                      "best; add --metric NAME (and --maximize), or metric: "
                      "{name: NAME, goal: minimize}");
    } else {
      searcher["metric"] = name->text;
    }
    if (goal_text != "minimize" && goal_text != "maximize") {
      findings_.Error(goal->mark, "metric.goal",
                      "expected minimize or maximize, got '" + goal_text + "'");
    }
    const bool is_given = goal != nullptr || !options_.metric.empty();
    if (is_given) searcher["smaller_is_better"] = goal_text != "maximize";
    if (metric == nullptr || !metric->is_map()) return;
    for (const Node::Entry& entry : metric->entries) {
      if (entry.key == "name" || entry.key == "goal") continue;
      findings_.Warning(entry.mark, "metric." + entry.key,
                        entry.key == "target"
                            ? "is not kept: the search does not end when a "
                              "trial reaches it"
                            : "has no counterpart in dtrain");
    }
  }

  void AddTrials(ImportJson& searcher) {
    const Node* cap = root_.Find("run_cap");
    const bool given =
        cap != nullptr && cap->kind == Node::Kind::kInt && cap->integer >= 1;
    if (cap != nullptr && !given) {
      findings_.Error(cap->mark, "run_cap",
                      "expected an integer of at least 1");
    }
    if (searcher["name"] == "grid") {
      if (given || options_.max_trials) {
        findings_.Warning(cap == nullptr ? root_.mark : cap->mark, "run_cap",
                          "is not kept: a grid tries every point");
      }
      return;
    }
    searcher["max_trials"] = options_.max_trials ? *options_.max_trials
                             : given             ? cap->integer
                                                 : kTrialsWithoutCap;
    if (given || options_.max_trials) return;
    findings_.Warning(root_.mark, "run_cap",
                      "is missing: W&B would run trials without end; here "
                      "max_trials is " +
                          std::to_string(kTrialsWithoutCap) +
                          "; choose it with --max-trials N");
  }

  // Hyperband stops runs at iterations; an iteration is a logged value of the
  // metric. Here trials are stopped at rungs, each eta times the one before.
  void AddEarlyTermination(const Node& early, ImportJson& searcher) {
    const Node* type = early.Find("type");
    if (type == nullptr || type->text != "hyperband") {
      findings_.Error(early.mark, "early_terminate.type",
                      "expected hyperband; W&B has no other");
      return;
    }
    if (method_ == "grid") {
      findings_.Warning(early.mark, "early_terminate",
                        "is not kept: a grid trains every trial to its end");
      return;
    }
    static const std::vector<std::string> kKnown = {
        "type", "eta", "s", "max_iter", "min_iter", "strict"};
    for (const Node::Entry& entry : early.entries) {
      const bool known = std::ranges::find(kKnown, entry.key) != kKnown.end();
      if (known && entry.key != "strict") continue;
      findings_.Warning(entry.mark, "early_terminate." + entry.key,
                        known ? "has no counterpart in dtrain"
                              : "unknown key of early_terminate" +
                                    DidYouMean(entry.key, kKnown));
    }
    const double eta = Number(early, "eta", 3);
    const double max_iter = Iterations(early, "max_iter");
    const double min_iter = Iterations(early, "min_iter");
    if (!(eta > 1)) {
      findings_.Error(early.mark, "early_terminate.eta",
                      "expected a number above 1");
      return;
    }
    if (max_iter < 1 && min_iter < 1) {
      findings_.Error(early.mark, "early_terminate",
                      "expected max_iter or min_iter of at least 1");
      return;
    }
    ImportJson length = {{"epochs", static_cast<std::int64_t>(max_iter)}};
    if (!options_.max_length.empty()) {
      length = Length();
      if (max_iter >= 1 && length.front() != max_iter) {
        findings_.Warning(early.Find("max_iter")->mark,
                          "early_terminate.max_iter",
                          "is not kept: --max-length replaces it");
      }
    } else if (max_iter < 1) {
      findings_.Error(early.mark, "early_terminate",
                      "min_iter does not say how long a run is; add "
                      "--max-length UNIT=N, such as epochs=27");
      return;
    }
    searcher["name"] = "async_halving";
    searcher["divisor"] = eta == std::round(eta)
                              ? ImportJson(static_cast<std::int64_t>(eta))
                              : ImportJson(eta);
    searcher["stop_once"] = true;
    searcher["num_rungs"] = Rungs(early, eta, max_iter, min_iter, length);
    searcher["max_length"] = length;
    findings_.Warning(
        early.mark, "early_terminate",
        (method_ == "bayes"
             ? "becomes rungs of bayesian_asha: trials are paused "
               "at "
             : "becomes searcher async_halving with stop_once: "
               "trials are stopped at ") +
            RungText(searcher) + "; W&B counts logged values of the metric");
  }

  // Returns the number of rungs, with that of max_length.
  std::int64_t Rungs(const Node& early, double eta, double max_iter,
                     double min_iter, const ImportJson& length) {
    const auto longest = length.front().get<double>();
    const auto steps_to = [&](double shortest) {
      return std::floor(std::log(longest / shortest) / std::log(eta) + 1e-9);
    };
    // The shortest rung, of at least one step.
    double steps = steps_to(1);
    const bool has_s = early.Find("s") != nullptr;
    if (max_iter >= 1 && (has_s || min_iter < 1)) {
      steps = std::min(steps, Number(early, "s", 1));
      if (!has_s) {
        findings_.Warning(early.mark, "early_terminate.s",
                          "is missing, so W&B would refuse the sweep; 1 here");
      }
      if (min_iter >= 1) {
        findings_.Warning(early.Find("min_iter")->mark,
                          "early_terminate.min_iter",
                          "is not kept: with max_iter, W&B uses s");
      }
    } else {
      steps = std::min(steps, steps_to(min_iter));
      const double shortest =
          std::floor(longest / std::pow(eta, std::max(steps, 0.0)) + 1e-9);
      if (shortest != min_iter) {
        findings_.Warning(early.Find("min_iter")->mark,
                          "early_terminate.min_iter",
                          "is not kept: rungs are the length divided by powers "
                          "of eta, of which the first is " +
                              FormatNumber(shortest));
      }
    }
    return static_cast<std::int64_t>(std::clamp(steps, 0.0, 63.0)) + 1;
  }

  static std::string RungText(const ImportJson& searcher) {
    const auto length = searcher["max_length"].begin();  // unit and value
    std::string text;
    double rung = length.value().get<double>();
    for (int i = 1; i < searcher["num_rungs"].get<int>(); ++i) {
      rung /= searcher["divisor"].get<double>();
      text.insert(0, std::to_string(std::max<std::int64_t>(
                         1, static_cast<std::int64_t>(rung))) +
                         (text.empty() ? "" : ", "));
    }
    return (text.empty() ? "no" : text) + " " + length.key();
  }

  double Number(const Node& map, const char* name, double fallback) {
    const Node* found = map.Find(name);
    if (found == nullptr) return fallback;
    if (found->IsNumber()) return found->number;
    findings_.Error(found->mark, "early_terminate." + std::string(name),
                    "expected a number, got " + Describe(*found));
    return fallback;
  }

  // Returns a number of iterations; 0 if it is not given, or wrong.
  double Iterations(const Node& early, const char* name) {
    const double count = Number(early, name, 0);
    const Node* given = early.Find(name);
    if (given == nullptr || !given->IsNumber() ||
        (count >= 1 && count <= static_cast<double>(kMaxCount) &&
         count == std::floor(count))) {
      return count;
    }
    findings_.Error(given->mark, "early_terminate." + std::string(name),
                    "expected an integer of at least 1");
    return 0;
  }

  ImportJson Length() const { return ParseMaxLength(options_.max_length); }

  // W&B refuses continuous ranges in a grid.
  void CheckGrid(const ImportJson& hyperparameters, const std::string& path) {
    for (const auto& [key, value] : hyperparameters.items()) {
      if (!value.is_object()) continue;
      const std::string at = JoinPath(path, key);
      if (!value.contains("type")) {
        CheckGrid(value, at);
      } else if (value["type"] == "double") {
        findings_.Error(root_.Find("parameters")->mark, at,
                        "a grid needs values, but this range is continuous; "
                        "use values: [...] or q_uniform");
      }
    }
  }

  const Node& root_;
  const SweepOptions& options_;
  Findings& findings_;
  std::string method_;
  std::string program_;
};

// Adds the parameters of a section, which are hyperparameters under `path`.
void AddSources(const Node& section, const std::string& section_path,
                const std::string& path, ImportedSweep& sweep) {
  for (const Node::Entry& entry : section.entries) {
    const std::string source = JoinPath(section_path, entry.key);
    const std::string key = JoinPath(path, entry.key);
    sweep.sources[key] = {source, entry.mark};
    const Node* nested = entry.value.Find("parameters");
    if (nested != nullptr) {
      AddSources(*nested, source + ".parameters", key, sweep);
    }
  }
}

void AddSources(const Node& root, ImportedSweep& sweep) {
  static constexpr std::array<std::array<const char*, 2>, 6> kKeys = {
      {{"name", "name"},
       {"description", "description"},
       {"entrypoint", "command"},
       {"searcher.name", "method"},
       {"searcher.max_trials", "run_cap"},
       {"searcher", "early_terminate"}}};
  for (const auto& [key, source] : kKeys) {
    const Node* node = root.Find(source);
    if (node != nullptr) sweep.sources[key] = {source, node->mark};
  }
  const Node* metric = root.Find("metric");
  if (metric != nullptr) {
    for (const char* key : {"searcher.metric", "searcher.smaller_is_better"}) {
      sweep.sources[key] = {"metric", metric->mark};
    }
  }
  const Node* parameters = root.Find("parameters");
  if (parameters == nullptr) return;
  AddSources(*parameters, "parameters", "hyperparameters", sweep);
}

}  // namespace

void ImportedSweep::Locate(Diagnostic& finding) const {
  for (std::string key = finding.key; !key.empty();
       key.resize(key.find('.') == key.npos ? 0 : key.rfind('.'))) {
    const auto source = sources.find(key);
    if (source == sources.end()) continue;
    finding.key = source->second.first;
    finding.line = source->second.second.line;
    finding.column = source->second.second.column;
    return;
  }
}

ImportedSweep ImportSweep(std::string_view text, const SweepOptions& options) {
  Findings findings(options.file_name, {});
  ImportedSweep sweep;
  auto root = ReadYaml(text, Mark{}, findings);
  ImportJson config;
  if (root && !root->is_map()) {
    findings.Error(root->mark, "",
                   "expected the keys of a sweep, such as "
                   "method and parameters");
  } else if (root) {
    for (const auto* key : {"parameters", "early_terminate", "run_cap"}) {
      if (Node* node = root->Find(key)) TypeAsYaml11(*node, key, findings);
    }
    SweepReader reader(*root, options, findings);
    config = reader.Read();
    sweep.program = reader.program();
    AddSources(*root, sweep);
  }
  const bool valid = root && findings.errors() == 0;
  sweep.findings = findings.Release();
  if (valid) sweep.yaml = ToYaml(config);
  return sweep;
}

}  // namespace dtrain
