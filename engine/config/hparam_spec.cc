#include "engine/config/hparam_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

using SpecJson = nlohmann::json;

enum class RangeKind {
  kConst,
  kInt,
  kIntBelow,  // without its upper bound
  kDouble,
  kLog,
  kMultiples,  // of a third argument
  kIntMultiples,
  kChoice,
};

struct RangeWord {
  std::string_view word;
  RangeKind kind;
};

constexpr std::array kRangeWords = {
    RangeWord{"log", RangeKind::kLog},
    RangeWord{"loguniform", RangeKind::kLog},
    RangeWord{"log_uniform_values", RangeKind::kLog},
    RangeWord{"double", RangeKind::kDouble},
    RangeWord{"float", RangeKind::kDouble},
    RangeWord{"uniform", RangeKind::kDouble},
    RangeWord{"int", RangeKind::kInt},
    RangeWord{"int_uniform", RangeKind::kInt},
    RangeWord{"randint", RangeKind::kIntBelow},
    RangeWord{"quniform", RangeKind::kMultiples},
    RangeWord{"q_uniform", RangeKind::kMultiples},
    RangeWord{"qrandint", RangeKind::kIntMultiples},
    RangeWord{"choice", RangeKind::kChoice},
    RangeWord{"categorical", RangeKind::kChoice},
    RangeWord{"const", RangeKind::kConst},
    RangeWord{"constant", RangeKind::kConst},
};

// Words of other tools that dtrain does not take, and what to write instead.
struct RefusedWord {
  std::string_view word;
  std::string_view instead;
};

constexpr std::string_view kNoNormal =
    "there is no normal distribution; use double(LOW,HIGH), or a list of "
    "values";
constexpr std::string_view kNoLogSteps =
    "there are no integers or steps on a logarithmic scale; use a list such as "
    "[16,32,64], or log(LOW,HIGH) and round in the program";

constexpr std::array kRefusedWords = {
    RefusedWord{
        "log_uniform",
        "its bounds are exponents of e in W&B; use log(LOW,HIGH), whose "
        "bounds are the values themselves"},
    RefusedWord{"grid_search",
                "use a list of values, [A,B], and --searcher grid"},
    RefusedWord{"sample_from", "use a range or a list of values"},
    RefusedWord{
        "categorical_w_probabilities",
        "there are no probabilities; repeat a value of a list, [A,A,B]"},
    RefusedWord{"randn", kNoNormal},
    RefusedWord{"qrandn", kNoNormal},
    RefusedWord{"normal", kNoNormal},
    RefusedWord{"q_normal", kNoNormal},
    RefusedWord{"log_normal", kNoNormal},
    RefusedWord{"q_log_normal", kNoNormal},
    RefusedWord{"lograndint", kNoLogSteps},
    RefusedWord{"qlograndint", kNoLogSteps},
    RefusedWord{"qloguniform", kNoLogSteps},
    RefusedWord{"q_log_uniform", kNoLogSteps},
    RefusedWord{"q_log_uniform_values", kNoLogSteps},
};

[[noreturn]] void RefuseSpec(const std::string& option,
                             const std::string& what) {
  throw Error(ErrorKind::kUsage, option + ": " + what);
}

// Returns the word without what Python code has before it:
// tune.uniform, trial.suggest_float.
std::string_view WithoutPrefix(std::string_view word) {
  for (const std::string_view prefix : {"tune.", "trial.", "suggest_"}) {
    if (word.starts_with(prefix)) word.remove_prefix(prefix.size());
  }
  return word;
}

// One SPEC.
class Spec {
 public:
  Spec(std::string option, std::string_view text)
      : option_(std::move(option)), text_(Trim(text)) {}

  // Returns the hyperparameter as the YAML has it.
  SpecJson Read() {
    const std::size_t open = text_.find('(');
    const std::string word = text_.substr(0, open);
    const bool is_call = open != text_.npos && !word.empty() &&
                         std::ranges::all_of(word, [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '_' || c == '.';
                         });
    if (!is_call) return ReadValue();
    if (!text_.ends_with(')')) RefuseSpec(option_, "has no ')' at its end");
    ReadArguments(text_.substr(open + 1, text_.size() - open - 2));
    return ReadCall(word);
  }

 private:
  // Returns a constant, or the choice among the elements of a list.
  SpecJson ReadValue() const {
    if (text_.empty()) {
      RefuseSpec(option_, "has no value; an empty text is written as ''");
    }
    SpecJson value = ReadSpecValue(option_, text_);
    if (value.is_array()) return Choice(std::move(value));
    if (value.is_object()) {
      RefuseSpec(option_,
                 "is a map; name nested hyperparameters with dots, --hp "
                 "'model.layers=int(2,8)'");
    }
    return value;
  }

  // Splits what is in the parentheses into values and NAME=VALUE.
  void ReadArguments(const std::string& inside) {
    arguments_ = SpecJson::array();
    for (SpecJson& one : ReadSpecValue(option_, "[" + inside + "]")) {
      const std::string text = one.is_string() ? one.get<std::string>() : "";
      const std::size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      const bool named =
          name == "count" || name == "step" || name == "log" || name == "q";
      if (equals == text.npos || !named) {
        if (!named_.empty()) {
          RefuseSpec(option_, "unexpected '" +
                                  (one.is_string() ? text : one.dump()) +
                                  "' after " + named_.begin()->first + "=");
        }
        arguments_.push_back(std::move(one));
        continue;
      }
      const bool is_new =
          named_
              .emplace(name == "q" ? "step" : name,
                       ReadSpecValue(option_, text.substr(equals + 1)))
              .second;
      if (!is_new) RefuseSpec(option_, "has " + name + "= twice");
    }
  }

  RangeKind KindOf(const std::string& word) const {
    const std::string_view bare = WithoutPrefix(word);
    std::vector<std::string> words;
    for (const RangeWord& known : kRangeWords) {
      if (known.word == bare) return known.kind;
      words.emplace_back(known.word);
    }
    for (const RefusedWord& refused : kRefusedWords) {
      if (refused.word != bare) continue;
      RefuseSpec(option_, "'" + word + "' is not supported: " +
                              std::string(refused.instead));
    }
    const std::string guess = DidYouMean(bare, words);
    RefuseSpec(option_,
               "'" + word + "' is not supported" +
                   (guess.empty() ? "; use one of " + Join(words, ", ") +
                                        ", or quote a text: \"...\""
                                  : guess));
  }

  SpecJson ReadCall(const std::string& word) {
    const RangeKind kind = KindOf(word);
    if (kind == RangeKind::kConst || kind == RangeKind::kChoice) {
      if (!named_.empty()) {
        RefuseSpec(option_, word + " takes no " + named_.begin()->first + "=");
      }
      if (kind == RangeKind::kChoice) return Choice(ChoicesOf(arguments_));
      if (arguments_.size() != 1)
        RefuseSpec(option_, word + " takes one value");
      return {{"type", "const"}, {"val", arguments_[0]}};
    }
    return Range(kind, word);
  }

  static SpecJson ChoicesOf(const SpecJson& arguments) {
    const bool is_list = arguments.size() == 1 && arguments[0].is_array();
    return is_list ? arguments[0] : arguments;
  }

  SpecJson Choice(SpecJson values) const {
    if (values.empty()) RefuseSpec(option_, "has no values to choose from");
    return {{"type", "categorical"}, {"vals", std::move(values)}};
  }

  static bool IsWhole(RangeKind kind) {
    return kind == RangeKind::kInt || kind == RangeKind::kIntBelow ||
           kind == RangeKind::kIntMultiples;
  }

  // Makes the third argument of quniform its step.
  void TakeMultiple(const std::string& word) {
    if (arguments_.size() == 3 && !named_.contains("step")) {
      named_["step"] = arguments_[2];
      arguments_.erase(2);
    }
    if (named_.contains("step")) return;
    RefuseSpec(option_, word + " takes two bounds and a step: " + word +
                            "(LOW,HIGH,STEP)");
  }

  SpecJson Range(RangeKind kind, const std::string& word) {
    const bool multiples =
        kind == RangeKind::kMultiples || kind == RangeKind::kIntMultiples;
    if (multiples) TakeMultiple(word);
    if (arguments_.size() != 2) {
      RefuseSpec(option_, word + " takes two bounds, " + word +
                              "(LOW,HIGH), not " +
                              std::to_string(arguments_.size()) + " values");
    }
    const bool whole = IsWhole(kind);
    SpecJson low = Bound("bound", arguments_[0], whole);
    SpecJson high = Bound("bound", arguments_[1], whole);
    if (low >= high)
      RefuseSpec(option_, "the first bound is not below the second");
    const bool log = TakeLog(kind, word);
    if (log && low <= 0) {
      RefuseSpec(option_,
                 word +
                     " takes bounds above 0: the values themselves, such as "
                     "1e-5, not exponents");
    }
    if (kind == RangeKind::kIntBelow) high = ExcludeMaximum(low, high);
    if (named_.contains("step")) return Steps(low, high, multiples, log, whole);
    SpecJson range = {
        {"type", whole ? "int" : "double"}, {"minval", low}, {"maxval", high}};
    if (log) range["log"] = true;
    if (named_.contains("count")) range["count"] = named_["count"];
    return range;
  }

  // Returns whether the range is uniform in the logarithm: by its word, or by
  // log=True.
  bool TakeLog(RangeKind kind, const std::string& word) const {
    const auto log = named_.find("log");
    if (log == named_.end()) return kind == RangeKind::kLog;
    const SpecJson& value = log->second;
    if (!value.is_boolean()) {
      RefuseSpec(option_, "log= takes true or false, not " + value.dump());
    }
    if (value.get<bool>() && kind != RangeKind::kDouble &&
        kind != RangeKind::kLog) {
      RefuseSpec(option_,
                 word + " takes no log=true: " + std::string(kNoLogSteps));
    }
    if (!value.get<bool>() && kind == RangeKind::kLog) {
      RefuseSpec(option_, word + " takes no log=false; use double(LOW,HIGH)");
    }
    return value.get<bool>();
  }

  SpecJson Steps(const SpecJson& low, const SpecJson& high, bool multiples,
                 bool log, bool whole) {
    if (log) RefuseSpec(option_, std::string(kNoLogSteps));
    if (named_.contains("count")) {
      RefuseSpec(option_, "has count= and step=; use one of them");
    }
    const SpecJson step = Bound("step", named_["step"], whole);
    const auto values = multiples ? MultiplesOf(low, high, step)
                                  : SteppedValues(low, high, step);
    if (!values) {
      RefuseSpec(option_, "the step " + step.dump() +
                              " is not above 0, or gives more than " +
                              std::to_string(kMaxSteps) + " values");
    }
    return Choice(*values);
  }

  // Ray's randint(LOW,HIGH) never returns HIGH.
  SpecJson ExcludeMaximum(const SpecJson& low, const SpecJson& high) const {
    if (low != high.get<std::int64_t>() - 1) {
      return high.get<std::int64_t>() - 1;
    }
    RefuseSpec(option_,
               "randint excludes its second bound, so this is one value; use "
               "int(LOW,HIGH), which includes it");
  }

  SpecJson Bound(const std::string& what, const SpecJson& value,
                 bool whole) const {
    if (whole && value.is_number_integer()) return value;
    if (!whole && value.is_number() && std::isfinite(value.get<double>())) {
      return value;
    }
    RefuseSpec(option_, "the " + what + " " + value.dump() + " is not " +
                            (whole ? "an integer" : "a finite number"));
  }

  std::string option_;
  std::string text_;
  SpecJson arguments_;                     // values in the parentheses
  std::map<std::string, SpecJson> named_;  // count=, step= and log=
};

// Returns `first + i * step` without the error of binary fractions: 0.3, not
// 0.30000000000000004.
double Decimal(double first, double i, double step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", first + i * step);
  return std::strtod(text.data(), nullptr);
}

}  // namespace

nlohmann::json ReadHparamSpec(const std::string& option,
                              std::string_view text) {
  return Spec(option, text).Read();
}

nlohmann::json ReadSpecValue(const std::string& option,
                             const std::string& text) {
  Findings findings(option, {});
  const auto node = ReadYaml(text, Mark{}, findings);
  const Diagnostics found = findings.Take();
  if (!node || !found.empty()) {
    RefuseSpec(option,
               (found.empty() ? "is not a YAML value" : found[0].message) +
                   "; quote a text: \"...\"");
  }
  return ToJson(*node);
}

std::optional<nlohmann::json> SteppedValues(const nlohmann::json& low,
                                            const nlohmann::json& high,
                                            const nlohmann::json& step) {
  const auto first = low.get<double>();
  const auto width = step.get<double>();
  // Half a millionth of a step is not a reason to leave out the last value.
  const double count =
      std::floor((high.get<double>() - first) / width + 5e-7) + 1;
  if (width <= 0 || !(count <= kMaxSteps)) return std::nullopt;
  const bool whole = low.is_number_integer() && step.is_number_integer() &&
                     high.is_number_integer();
  SpecJson values = SpecJson::array();
  for (int i = 0; i < static_cast<int>(count); ++i) {
    if (whole) {
      values.push_back(low.get<std::int64_t>() + i * step.get<std::int64_t>());
    } else {
      values.push_back(Decimal(first, i, width));
    }
  }
  return values;
}

std::optional<nlohmann::json> MultiplesOf(const nlohmann::json& low,
                                          const nlohmann::json& high,
                                          const nlohmann::json& step) {
  const auto width = step.get<double>();
  if (width <= 0) return std::nullopt;
  const double first = std::ceil(low.get<double>() / width - 5e-7);
  const bool whole = low.is_number_integer() && step.is_number_integer() &&
                     high.is_number_integer();
  if (!whole) return SteppedValues(Decimal(0, first, width), high, step);
  return SteppedValues(
      static_cast<std::int64_t>(first) * step.get<std::int64_t>(), high, step);
}

}  // namespace dtrain
