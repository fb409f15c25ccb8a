// SPEC of `dtrain run --hp NAME=SPEC`: a value, a list to choose from, or a
// range such as log(1e-5,1e-1).
//
// Besides dtrain's words those of Ray Tune, Optuna, W&B, Hydra and guild are
// understood where they mean the same, or can be expressed: randint excludes
// its upper bound, quniform becomes a range whose steps are its multiples,
// Python's range a list. Where a word means something else (W&B's log_uniform
// has exponents as bounds), or dtrain has no such distribution, it is refused
// with what to write instead. To guess would search the wrong space for days,
// so every text that could be meant as code, a range or a list of another tool
// must be quoted to be a text.
//
// The steps: SplitAtCommas finds the parts outside of quotes and brackets;
// ReadPart reads values with the YAML reader, tuples and ranges of Python;
// ParseNamed puts keyword arguments in their places; Range checks and makes the
// map that the YAML would have.

#include "engine/config/hparam_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/value_reader.h"
#include "engine/config/yaml_reader.h"
#include "engine/config/yaml_text.h"
#include "searchers/number_range.h"

namespace dtrain {
namespace {

using SpecJson = nlohmann::json;

enum class RangeKind {
  kConst,
  kInt,
  kIntBelow,  // without its upper bound
  kDouble,
  kLog,
  kLogIntBelow,  // without its upper bound
  kMultiples,    // of a third argument, between the bounds
  kIntMultiples,
  kNearestMultiples,  // of numbers between the bounds
  kNormal,
  kLogNormal,
  kChoice,
};

struct RangeWord {
  std::string_view word;
  RangeKind kind;
};

// Maximum number of values of Python's range.
constexpr int kMaxRangeValues = 1000;

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
    RangeWord{"lograndint", RangeKind::kLogIntBelow},
    RangeWord{"quniform", RangeKind::kMultiples},
    RangeWord{"q_uniform", RangeKind::kNearestMultiples},
    RangeWord{"qrandint", RangeKind::kIntMultiples},
    RangeWord{"normal", RangeKind::kNormal},
    RangeWord{"randn", RangeKind::kNormal},
    RangeWord{"log_normal", RangeKind::kLogNormal},
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

constexpr std::string_view kNoNormalSteps =
    "there are no steps of a normal distribution; use normal(MEAN,STD) and "
    "round in the program";
constexpr std::string_view kNoLogSteps =
    "there are no steps on a logarithmic scale; use int(LOW,HIGH,log=true), or "
    "a list such as [16,32,64]";

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
    RefusedWord{"qrandn", kNoNormalSteps},
    RefusedWord{"q_normal", kNoNormalSteps},
    RefusedWord{"q_log_normal", kNoNormalSteps},
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

// Returns the word of `WORD(…)`; empty for another text.
std::string CalledWord(std::string_view text) {
  const std::string_view word = text.substr(0, text.find('('));
  const bool is_call = word.size() < text.size() && !word.empty() &&
                       std::ranges::all_of(word, [](unsigned char c) {
                         return std::isalnum(c) != 0 || c == '_' || c == '.';
                       });
  return is_call ? std::string(word) : "";
}

// Splits a text at the separators outside of its quotes and brackets; one after
// the last part is allowed. Nothing if a bracket has no counterpart.
std::optional<std::vector<std::string>> SplitOutside(
    std::string_view text, std::string_view separator) {
  std::vector<std::string> parts(1);
  std::string closing;  // of the brackets that are open
  char quote = 0;       // that is open
  bool begins = true;   // a value, so that a quote opens here
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool escapes = (quote == '"' && c == '\\' && next != '\0') ||
                         (quote == '\'' && c == '\'' && next == '\'');
    const bool opens = quote == 0 && begins && (c == '"' || c == '\'');
    const bool splits =
        quote == 0 && closing.empty() && text.substr(i).starts_with(separator);
    if (splits) {
      parts.emplace_back();
      i += separator.size() - 1;
      begins = true;
      continue;
    }
    parts.back() += c;
    if (escapes) {
      parts.back() += text[++i];
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      begins = false;
    } else if (opens) {
      quote = c;
    } else {
      if (c == '(' || c == '[' || c == '{') {
        closing += c == '(' ? ')' : c == '[' ? ']' : '}';
      } else if (c == ')' || c == ']' || c == '}') {
        if (closing.empty() || closing.back() != c) return std::nullopt;
        closing.pop_back();
      }
      begins = std::string_view(",([{:=").find(c) != std::string_view::npos ||
               (begins && c == ' ');
    }
  }
  if (!closing.empty()) return std::nullopt;
  if (Trim(parts.back()).empty()) parts.pop_back();
  return parts;
}

std::optional<std::vector<std::string>> SplitAtCommas(std::string_view text) {
  return SplitOutside(text, ",");
}

// True for an expression of Python: a call, a comprehension, or arithmetic on
// numbers.
bool IsExpression(std::string_view text) {
  const std::size_t open = text.find('(');
  const bool calls =
      open != text.npos && open > 0 &&
      (std::isalnum(static_cast<unsigned char>(text[open - 1])) != 0 ||
       text[open - 1] == '_');
  const std::size_t loop = text.find(" for ");
  const bool loops = loop != text.npos && text.find(" in ", loop) != text.npos;
  constexpr std::string_view kOperators = "*/";
  const std::size_t at = text.find_first_of(kOperators);
  const std::size_t rest = text.find_first_not_of(kOperators, at);
  const bool calculates =
      at != text.npos && rest != text.npos &&
      PlainScalar(std::string(Trim(text.substr(0, at)))).IsNumber() &&
      PlainScalar(std::string(Trim(text.substr(rest)))).IsNumber();
  return calls || loops || calculates;
}

// True for numbers with colons between them, such as 0.1:1.
bool IsSlice(std::string_view text) {
  const std::vector<std::string> parts = Split(text, ':');
  return parts.size() > 1 &&
         std::ranges::all_of(parts, [](const std::string& part) {
           return PlainScalar(std::string(Trim(part))).IsNumber();
         });
}

// Refuses texts without quotes that are meant as something else: the parts of
// an expression that YAML has taken apart, and what other tools read as ranges
// and lists. `in_list`: in a list, or among the arguments of a word.
void CheckPlainTexts(const std::string& option, const Node& node,
                     bool in_list) {
  for (const Node& item : node.items) CheckPlainTexts(option, item, true);
  for (const Node::Entry& entry : node.entries) {
    if (!SplitAtCommas(entry.key)) {
      RefuseSpec(option, "'" + entry.key +
                             "' has a bracket without its counterpart; quote "
                             "a text: \"...\"");
    }
    CheckPlainTexts(option, entry.value, true);
  }
  if (node.is_null() && node.text.empty()) {
    RefuseSpec(option,
               "a value is nothing; write null, or '' for an empty text, and "
               "quote a text that begins with '#' or '&'");
  }
  if (!node.is_string() || node.quoted) return;
  const std::string shown = "'" + node.text + "'";
  const auto parts = SplitAtCommas(node.text);
  std::string why;
  if (!parts) {
    why = "has a bracket without its counterpart";
  } else if (IsSlice(node.text)) {
    why =
        "is a range of other tools; write double(LOW,HIGH), int(LOW,HIGH) or "
        "int(LOW,HIGH,step=S)";
  } else if (node.text == "None") {
    why = "is a text here; write null for no value";
  } else if (in_list && IsExpression(node.text)) {
    why = "is code, which is not run; write the values";
  } else if (parts->size() > 1) {
    why =
        "is a list in Hydra and a text elsewhere; write [A,B] to choose one "
        "of its values";
  }
  if (why.empty()) return;
  RefuseSpec(option, shown + " " + why + ", or quote the text: \"...\"");
}

// Reads a YAML value. `in_list`: see CheckPlainTexts.
SpecJson ReadYamlValue(const std::string& option, const std::string& text,
                       bool in_list) {
  Findings findings(option, {});
  const auto node = ReadYaml(text, Mark{}, findings);
  const Diagnostics found = findings.Release();
  if (!node || !found.empty()) {
    RefuseSpec(option,
               (found.empty() ? "is not a YAML value" : found[0].message) +
                   "; quote a text: \"...\"");
  }
  const bool shortened = node->IsScalar() && !node->quoted &&
                         text.find('#') != text.npos &&
                         node->text != Trim(text);
  if (shortened) {
    RefuseSpec(option, "'#' begins a comment; quote a text: \"...\"");
  }
  CheckPlainTexts(option, *node, in_list);
  Findings values(option, {});
  SpecJson value = ReadFreeValue(*node, "", values);
  if (values.errors() > 0) RefuseSpec(option, values.Release().front().message);
  return value;
}

// One SPEC.
class Spec {
 public:
  Spec(std::string option, std::string_view text)
      : option_(std::move(option)), text_(Trim(text)) {}

  // Returns the hyperparameter as the YAML has it.
  SpecJson Read() {
    if (auto range = ReadSlice()) return *std::move(range);
    const std::string word = CalledWord(text_);
    if (word.empty() || IsListWord(word)) return ReadValue();
    if (!text_.ends_with(')')) RefuseSpec(option_, "has no ')' at its end");
    const RangeKind kind = ParseRangeKind(word);
    ReadArguments(text_.substr(word.size() + 1, text_.size() - word.size() - 2),
                  kind, word);
    return ReadCall(kind, word);
  }

 private:
  static bool IsListWord(std::string_view word) {
    return word == "range" || word == "list" || word == "tuple";
  }

  // Reads guild's [LOW:HIGH], uniform[LOW:HIGH] and loguniform[LOW:HIGH].
  std::optional<SpecJson> ReadSlice() {
    const std::size_t open = text_.find('[');
    if (open == text_.npos || !text_.ends_with(']')) return std::nullopt;
    const std::string inside = text_.substr(open + 1, text_.size() - open - 2);
    const std::string word(WithoutPrefix(text_.substr(0, open)));
    const bool log = word == "loguniform";
    const bool takes_slice = log || word == "uniform" || word.empty();
    const auto is_word = [&](const auto& one) { return one.word == word; };
    const bool is_known = takes_slice || IsSlice(inside) ||
                          std::ranges::any_of(kRangeWords, is_word) ||
                          std::ranges::any_of(kRefusedWords, is_word);
    if (!is_known || (word.empty() && !IsSlice(inside))) return std::nullopt;
    const std::vector<std::string> bounds = Split(inside, ':');
    if (!takes_slice || !IsSlice(inside) || bounds.size() != 2) {
      RefuseSpec(option_,
                 "expected WORD(LOW,HIGH), such as double(0,1), log(1e-4,1) or "
                 "int(1,8), with parentheses and a comma; quote a text: "
                 "\"...\"");
    }
    arguments_ = {ReadSpecValue(option_, bounds[0]),
                  ReadSpecValue(option_, bounds[1])};
    if (arguments_[0].is_number_integer() &&
        arguments_[1].is_number_integer()) {
      RefuseSpec(option_,
                 "these bounds are integers, of which guild draws integers; "
                 "write int(LOW,HIGH), or " +
                     std::string(log ? "log" : "double") +
                     "(LOW,HIGH) for any number between them");
    }
    return Range(log ? RangeKind::kLog : RangeKind::kDouble, word);
  }

  // Returns a constant, or the choice among the elements of a list.
  SpecJson ReadValue() const {
    if (text_.empty()) {
      RefuseSpec(option_, "has no value; an empty text is written as ''");
    }
    const bool is_list =
        text_.starts_with('[') || IsListWord(CalledWord(text_));
    SpecJson value = is_list ? ReadPart(text_) : ReadSpecValue(option_, text_);
    if (value.is_array()) return Choice(std::move(value));
    if (value.is_object()) {
      RefuseSpec(option_,
                 "is a map; name nested hyperparameters with dots, --hp "
                 "'model.layers=int(2,8)'");
    }
    return value;
  }

  // Returns the parts of what is in brackets.
  std::vector<std::string> SplitParts(const std::string& inside) const {
    const auto parts = SplitAtCommas(inside);
    if (!parts) {
      RefuseSpec(option_, "'" + inside +
                              "' has a bracket without its counterpart; quote "
                              "a text: \"...\"");
    }
    for (const std::string& part : *parts) {
      if (!Trim(part).empty()) continue;
      RefuseSpec(option_,
                 "has no value between two commas; an empty text is written "
                 "as ''");
    }
    return *parts;
  }

  // Reads a value in a list or among arguments: also a tuple, and a range of
  // Python.
  SpecJson ReadPart(const std::string& part) const {
    const std::string text(Trim(part));
    const bool tuple = text.starts_with('(') && text.ends_with(')');
    if (tuple || (text.starts_with('[') && text.ends_with(']'))) {
      const std::string inside = text.substr(1, text.size() - 2);
      SpecJson list = SpecJson::array();
      for (const std::string& one : SplitParts(inside)) {
        list.push_back(ReadPart(one));
      }
      const bool grouped =
          tuple && list.size() == 1 && !Trim(inside).ends_with(',');
      return grouped ? SpecJson(list[0]) : list;
    }
    const std::string word = CalledWord(text);
    if (!IsListWord(word) || !text.ends_with(')')) {
      return ReadYamlValue(option_, text, /*in_list=*/true);
    }
    const std::string inside =
        text.substr(word.size() + 1, text.size() - word.size() - 2);
    if (word != "range") {
      SpecJson list = ReadPart(inside);
      if (list.is_array()) return list;
      RefuseSpec(option_, "'" + text + "' takes a list; write its values");
    }
    return PythonRange(inside);
  }

  // Returns the values of range(HIGH), range(LOW,HIGH) or range(LOW,HIGH,STEP)
  // of Python, Hydra and DVC, without HIGH.
  SpecJson PythonRange(const std::string& inside) const {
    SpecJson bounds = SpecJson::array();
    for (const std::string& one : SplitParts(inside)) {
      bounds.push_back(Bound("bound of range", ReadPart(one), true));
    }
    if (bounds.size() == 1) bounds.insert(bounds.begin(), 0);
    if (bounds.size() == 2) bounds.push_back(1);
    const bool valid = bounds.size() == 3 && bounds[0] < bounds[1] &&
                       bounds[2] > 0 &&
                       (bounds[1].get<double>() - bounds[0].get<double>()) /
                               bounds[2].get<double>() <=
                           kMaxRangeValues;
    if (valid) {
      const auto high = bounds[1].get<std::int64_t>();
      const auto step = bounds[2].get<std::int64_t>();
      SpecJson values = SpecJson::array();
      auto next = bounds[0].get<std::int64_t>();
      do {
        values.push_back(next);
      } while (!__builtin_add_overflow(next, step, &next) && next < high);
      return values;
    }
    RefuseSpec(option_, "range(" + inside + ") has no values, or more than " +
                            std::to_string(kMaxRangeValues) +
                            "; write range(LOW,HIGH,STEP), without HIGH");
  }

  // Returns the meaning of a named argument; empty for an unknown name.
  static std::string FindMeaning(std::string_view name) {
    struct Argument {
      std::string_view name;
      std::string_view meaning;
    };
    static constexpr std::array kArguments = {
        Argument{"count", "count"},     Argument{"step", "step"},
        Argument{"q", "step"},          Argument{"log", "log"},
        Argument{"name", "name"},       Argument{"low", "low"},
        Argument{"lower", "low"},       Argument{"minval", "low"},
        Argument{"high", "high"},       Argument{"upper", "high"},
        Argument{"maxval", "high"},     Argument{"mean", "mean"},
        Argument{"mu", "mean"},         Argument{"std", "std"},
        Argument{"sd", "std"},          Argument{"sigma", "std"},
        Argument{"choices", "choices"}, Argument{"categories", "choices"}};
    const auto found = std::ranges::find(kArguments, name, &Argument::name);
    return found == kArguments.end() ? "" : std::string(found->meaning);
  }

  // Splits what is in the parentheses into values and NAME=VALUE.
  void ReadArguments(const std::string& inside, RangeKind kind,
                     const std::string& word) {
    arguments_ = SpecJson::array();
    for (const std::string& part : SplitParts(inside)) {
      const std::size_t equals = part.find('=');
      const std::string name =
          equals == part.npos ? "" : FindMeaning(Trim(part.substr(0, equals)));
      if (name.empty()) {
        if (!named_.empty()) {
          RefuseSpec(option_, "unexpected '" + std::string(Trim(part)) +
                                  "' after " + named_.begin()->first + "=");
        }
        arguments_.push_back(ReadPart(part));
        continue;
      }
      const bool is_new =
          named_.emplace(name, ReadPart(part.substr(equals + 1))).second;
      if (!is_new) RefuseSpec(option_, "has " + name + "= twice");
    }
    ParseNamed(kind, word);
  }

  // Puts low=, high= and choices= in their places, and drops the name with
  // which the arguments of Optuna's suggest_… begin.
  void ParseNamed(RangeKind kind, const std::string& word) {
    named_.erase("name");
    if (kind == RangeKind::kNormal || kind == RangeKind::kLogNormal) return;
    const bool optuna = word.find("suggest_") != word.npos;
    const bool chooses = kind == RangeKind::kChoice;
    for (const auto* name : {"choices", "low", "high"}) {
      const auto value = named_.find(name);
      if (value == named_.end()) continue;
      if (optuna && !chooses && arguments_.size() == 1 &&
          arguments_[0].is_string()) {
        arguments_.erase(0);
      }
      arguments_.push_back(value->second);
      named_.erase(value);
    }
    if (!optuna) return;
    const bool begins_with_name =
        arguments_.size() > 1 && arguments_[0].is_string();
    if (chooses && arguments_.size() == 2 && begins_with_name &&
        arguments_[1].is_array()) {
      arguments_.erase(0);
    } else if (chooses &&
               !(arguments_.size() == 1 && arguments_[0].is_array())) {
      RefuseSpec(option_,
                 word +
                     " takes a name and a list, (\"NAME\",[A,B]); without "
                     "a name use choice(A,B)");
    } else if (!chooses && begins_with_name) {
      arguments_.erase(0);
    }
  }

  RangeKind ParseRangeKind(const std::string& word) const {
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

  SpecJson ReadCall(RangeKind kind, const std::string& word) {
    if (kind == RangeKind::kConst || kind == RangeKind::kChoice) {
      if (!named_.empty()) {
        RefuseSpec(option_, word + " takes no " + named_.begin()->first + "=");
      }
      const bool one = arguments_.size() == 1;
      if (kind == RangeKind::kChoice) {
        return Choice(one && arguments_[0].is_array() ? arguments_[0]
                                                      : arguments_);
      }
      if (!one) RefuseSpec(option_, word + " takes one value");
      return {{"type", "const"}, {"val", arguments_[0]}};
    }
    return Range(kind, word);
  }

  SpecJson Choice(SpecJson values) const {
    if (values.empty()) RefuseSpec(option_, "has no values to choose from");
    return {{"type", "categorical"}, {"vals", std::move(values)}};
  }

  static bool IsWhole(RangeKind kind) {
    return kind == RangeKind::kInt || kind == RangeKind::kIntBelow ||
           kind == RangeKind::kLogIntBelow || kind == RangeKind::kIntMultiples;
  }

  SpecJson Range(RangeKind kind, const std::string& word) {
    if (kind == RangeKind::kNormal || kind == RangeKind::kLogNormal) {
      return Normal(kind, word);
    }
    const bool multiples = kind == RangeKind::kMultiples ||
                           kind == RangeKind::kIntMultiples ||
                           kind == RangeKind::kNearestMultiples;
    if (multiples && !named_.contains("step")) {
      if (arguments_.size() != 3) {
        RefuseSpec(option_, word + " takes two bounds and a step: " + word +
                                "(LOW,HIGH,STEP)");
      }
      named_["step"] = arguments_[2];
      arguments_.erase(2);
    }
    if (arguments_.size() != 2) {
      RefuseSpec(option_, word + " takes two bounds, " + word +
                              "(LOW,HIGH), not " +
                              std::to_string(arguments_.size()) + " values");
    }
    for (const char* name : {"mean", "std"}) {
      if (named_.contains(name)) {
        RefuseSpec(option_, word + " takes no " + std::string(name) + "=");
      }
    }
    const bool whole = IsWhole(kind);
    const SpecJson low = Bound("bound", arguments_[0], whole);
    SpecJson high = Bound("bound", arguments_[1], whole);
    if (low >= high)
      RefuseSpec(option_, "the first bound is not below the second");
    const bool log = ParseLog(kind, word);
    if (log && low <= 0) {
      RefuseSpec(option_,
                 word +
                     " takes bounds above 0: the values themselves, such as "
                     "1e-5, not exponents");
    }
    if (kind == RangeKind::kIntBelow || kind == RangeKind::kLogIntBelow) {
      // Ray's randint(LOW,HIGH) never returns HIGH.
      high = high.get<std::int64_t>() - 1;
      if (low == high) {
        RefuseSpec(option_, word +
                                " excludes its second bound, so this is one "
                                "value; use int(LOW,HIGH), which includes it");
      }
    }
    SpecJson range = {
        {"type", whole ? "int" : "double"}, {"minval", low}, {"maxval", high}};
    if (log) range["log"] = true;
    if (named_.contains("count")) range["count"] = named_["count"];
    if (!named_.contains("step")) return range;
    if (log) RefuseSpec(option_, std::string(kNoLogSteps));
    if (named_.contains("count")) {
      RefuseSpec(option_, "has count= and step=; use one of them");
    }
    const SpecJson step = Bound("step", named_["step"], whole);
    if (step <= 0) {
      RefuseSpec(option_, "the step " + step.dump() + " is not above 0");
    }
    if (multiples) {
      return Multiples(low, high, step, kind == RangeKind::kNearestMultiples);
    }
    range["step"] = step;
    return range;
  }

  SpecJson Multiples(const SpecJson& low, const SpecJson& high,
                     const SpecJson& step, bool nearest) const {
    auto range = RangeOfMultiples(low, high, step, nearest);
    if (range) return *std::move(range);
    RefuseSpec(option_, "no multiple of " + step.dump() +
                            " is between the bounds; use a smaller step");
  }

  // Reads normal(MEAN,STD), with the defaults of the tools.
  SpecJson Normal(RangeKind kind, const std::string& word) {
    if (arguments_.size() > 2) {
      RefuseSpec(option_, word + " takes a mean and a standard deviation, " +
                              word + "(MEAN,STD), not " +
                              std::to_string(arguments_.size()) +
                              " values; bounds are low= and high=");
    }
    SpecJson range = {{"type", "normal"}, {"mean", 0}, {"std", 1}};
    const auto set = [&](const char* key, const char* name,
                         const SpecJson& value) {
      range[key] = Bound(name, value, false);
    };
    if (!arguments_.empty()) set("mean", "mean", arguments_[0]);
    if (arguments_.size() > 1) set("std", "standard deviation", arguments_[1]);
    if (ParseLog(kind, word)) range["log"] = true;
    for (const auto& [name, value] : named_) {
      const bool given = (name == "mean" && !arguments_.empty()) ||
                         (name == "std" && arguments_.size() > 1);
      if (given) RefuseSpec(option_, "has " + name + "= twice");
      if (name == "mean" || name == "std") {
        set(name.c_str(), name.c_str(), value);
      } else if (name == "low" || name == "high") {
        set(name == "low" ? "minval" : "maxval", "bound", value);
      } else if (name == "count") {
        range["count"] = value;
      } else if (name == "step") {
        RefuseSpec(option_, std::string(kNoNormalSteps));
      } else if (name != "log") {
        RefuseSpec(option_, word + " takes no " + name + "=");
      }
    }
    if (range["std"] > 0) return range;
    RefuseSpec(option_, "the standard deviation " + range["std"].dump() +
                            " is not above 0");
  }

  // Returns whether the range is on a logarithmic scale: by its word, or by
  // log=True.
  bool ParseLog(RangeKind kind, const std::string& word) const {
    const bool by_word = kind == RangeKind::kLog ||
                         kind == RangeKind::kLogIntBelow ||
                         kind == RangeKind::kLogNormal;
    const auto log = named_.find("log");
    if (log == named_.end()) return by_word;
    const SpecJson& value = log->second;
    if (!value.is_boolean()) {
      RefuseSpec(option_, "log= takes true or false, not " + value.dump());
    }
    const bool takes_log = by_word || kind == RangeKind::kDouble ||
                           kind == RangeKind::kInt ||
                           kind == RangeKind::kNormal;
    if (value.get<bool>() && !takes_log) {
      RefuseSpec(option_, word + " takes no log=true; use int(LOW,HIGH,log=" +
                              "true) or log(LOW,HIGH)");
    }
    if (!value.get<bool>() && by_word) {
      RefuseSpec(option_, word +
                              " takes no log=false; use double(LOW,HIGH), "
                              "int(LOW,HIGH) or normal(MEAN,STD)");
    }
    return value.get<bool>();
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

// One comparison of a condition: NAME==VALUE, NAME>=N, NAME<=N, NAME in [A,B].
struct WhenComparison {
  std::string name;
  std::string operation;
  std::string value;
};

// Nothing if the text is no comparison.
std::optional<WhenComparison> ParseWhenComparison(std::string_view text) {
  for (const std::string_view operation : {"==", ">=", "<=", " in "}) {
    const std::size_t at = text.find(operation);
    if (at == text.npos) continue;
    const std::string name(Trim(text.substr(0, at)));
    const bool is_name =
        !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
          return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
        });
    if (!is_name) continue;
    return WhenComparison{
        .name = name,
        .operation = std::string(Trim(operation)),
        .value = std::string(Trim(text.substr(at + operation.size())))};
  }
  return std::nullopt;
}

constexpr std::string_view kConditionHelp =
    "write when NAME==VALUE, NAME in [A,B], NAME>=N or NAME<=N, several joined "
    "by and, and else VALUE at the end";

// Reads COMPARISON and …, which stands behind `when`, into a condition.
SpecJson ReadComparisons(const std::string& option, const std::string& text) {
  SpecJson when = SpecJson::object();
  for (const std::string& part :
       SplitOutside(text, " and ").value_or(std::vector<std::string>{text})) {
    const auto one = ParseWhenComparison(part);
    if (!one) {
      RefuseSpec(option, "'" + std::string(Trim(part)) + "' is no condition; " +
                             std::string(kConditionHelp));
    }
    SpecJson value = ReadYamlValue(option, one->value, /*in_list=*/true);
    const bool is_bound = one->operation == ">=" || one->operation == "<=";
    if (is_bound && !value.is_number()) {
      RefuseSpec(option,
                 one->operation + " takes a number, not " + value.dump());
    }
    if (one->operation == "in" && (!value.is_array() || value.empty())) {
      RefuseSpec(option, "in takes a list, [A,B], not " + value.dump());
    }
    const char* bound = one->operation == ">=" ? "minval" : "maxval";
    const auto known = when.find(one->name);
    const bool is_twice =
        known != when.end() &&
        (!is_bound || !known->is_object() || known->contains(bound));
    if (is_twice) {
      RefuseSpec(option, "the condition has '" + one->name + "' twice; write " +
                             one->name + " in [A,B]");
    }
    if (is_bound) {
      when[one->name][bound] = std::move(value);
    } else if (one->operation == "in") {
      when[one->name] = std::move(value);
    } else {
      when[one->name] = SpecJson::array({std::move(value)});
    }
  }
  return when;
}

}  // namespace

nlohmann::json ReadHparamSpec(const std::string& option,
                              std::string_view text) {
  // A text may have the word, too.
  const auto parts = SplitOutside(text, " when ");
  const bool has_word = parts && parts->size() == 2;
  const bool is_condition =
      has_word &&
      ParseWhenComparison(SplitOutside(parts->back(), " and ")->front());
  if (!is_condition) {
    const std::string before(has_word ? Trim(parts->front()) : "");
    if (before.ends_with(')') || before.ends_with(']')) {
      RefuseSpec(option, "'" + std::string(Trim(parts->back())) +
                             "' is no condition; " +
                             std::string(kConditionHelp));
    }
    return Spec(option, text).Read();
  }
  SpecJson hparam = Spec(option, parts->front()).Read();
  if (!hparam.is_object()) hparam = {{"type", "const"}, {"val", hparam}};
  const auto condition = *SplitOutside(parts->back(), " else ");
  hparam["when"] = ReadComparisons(option, condition[0]);
  if (condition.size() == 1) return hparam;
  if (condition.size() > 2) {
    RefuseSpec(option, "has else twice; " + std::string(kConditionHelp));
  }
  hparam["else"] =
      ReadYamlValue(option, std::string(Trim(condition[1])), /*in_list=*/true);
  return hparam;
}

nlohmann::json ReadSpecValue(const std::string& option,
                             const std::string& text) {
  return ReadYamlValue(option, text, /*in_list=*/false);
}

std::optional<nlohmann::json> RangeOfMultiples(const nlohmann::json& low,
                                               const nlohmann::json& high,
                                               const nlohmann::json& step,
                                               bool nearest) {
  // Half a millionth of a step is not a reason to leave out a multiple.
  constexpr double kTolerance = 5e-7;
  const auto width = step.get<double>();
  const double from = low.get<double>() / width;
  const double to = high.get<double>() / width;
  const double first = nearest ? std::floor(from + 0.5 + kTolerance)
                               : std::ceil(from - kTolerance);
  const double last =
      nearest ? std::ceil(to - 0.5 - kTolerance) : std::floor(to + kTolerance);
  const bool whole =
      step.is_number_integer() &&
      (nearest || (low.is_number_integer() && high.is_number_integer()));
  const auto multiple = [&](double count) -> SpecJson {
    const double value = AddSteps(0, count, width);
    if (!whole) return value;
    return static_cast<std::int64_t>(
        std::clamp(value, -0x1p62, 0x1p62));  // refused later
  };
  if (!(first <= last)) return std::nullopt;
  if (first == last) return multiple(first);
  return SpecJson{{"type", whole ? "int" : "double"},
                  {"minval", multiple(first)},
                  {"maxval", multiple(last)},
                  {"step", step}};
}

}  // namespace dtrain
