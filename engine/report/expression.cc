// Expressions of --filter and --require.
//
//   expression = comparison { "and" comparison }
//   comparison = name operator value
//   operator   = ">=" | "<=" | "==" | "!=" | "<" | ">"
//
// Names and values with blanks are quoted. Values that are not numbers are
// compared as text, without case, for equality only.

#include "engine/report/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <strings.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

struct OpName {
  std::string_view text;
  CompareOp op;
};

// Longer operators first, so that "<=" is not read as "<".
constexpr std::array kOps = {
    OpName{">=", CompareOp::kGreaterEqual}, OpName{"<=", CompareOp::kLessEqual},
    OpName{"==", CompareOp::kEqual},        OpName{"!=", CompareOp::kNotEqual},
    OpName{"<", CompareOp::kLess},          OpName{">", CompareOp::kGreater}};

bool SameText(const std::string& a, const std::string& b) {
  return strcasecmp(a.c_str(), b.c_str()) == 0;
}

std::optional<double> NumberOf(const std::string& text) {
  if (SameText(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;
  double value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what)
      : text_(text), what_(what) {}

  std::vector<Comparison> Parse() {
    std::vector<Comparison> comparisons;
    do {
      comparisons.push_back(ParseComparison());
    } while (ParseAnd());
    return comparisons;
  }

 private:
  Comparison ParseComparison() {
    SkipBlanks();
    const std::size_t start = at_;
    Comparison comparison;
    comparison.name = Word("a name").text;
    comparison.op = Operator();
    const WordText value = Word("a value");
    const auto number = value.quoted ? std::nullopt : NumberOf(value.text);
    const bool ordered = comparison.op != CompareOp::kEqual &&
                         comparison.op != CompareOp::kNotEqual;
    if (!number && ordered) Fail("a number");
    if (number) {
      comparison.value = *number;
    } else {
      comparison.value = value.text;
    }
    comparison.text = std::string(text_.substr(start, at_ - start));
    return comparison;
  }

  bool ParseAnd() {
    SkipBlanks();
    if (at_ == text_.size()) return false;
    const std::size_t before = at_;
    const WordText word = Word("'and'");
    if (word.quoted || !SameText(word.text, "and")) {
      at_ = before;
      Fail("'and'");
    }
    return true;
  }

  CompareOp Operator() {
    SkipBlanks();
    for (const OpName& name : kOps) {
      if (!text_.substr(at_).starts_with(name.text)) continue;
      at_ += name.text.size();
      return name.op;
    }
    Fail("one of >= <= < > == !=");
  }

  struct WordText {
    std::string text;
    bool quoted = false;
  };

  WordText Word(const std::string& expected) {
    SkipBlanks();
    if (at_ == text_.size()) Fail(expected);
    const char quote = text_[at_];
    if (quote == '"' || quote == '\'') {
      const std::size_t end = text_.find(quote, at_ + 1);
      if (end == std::string_view::npos) Fail("a closing quote");
      const auto inner = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return {std::string(inner), true};
    }
    const std::size_t end =
        std::min(text_.find_first_of(" \t<>=!", at_), text_.size());
    if (end == at_) Fail(expected);
    const auto word = text_.substr(at_, end - at_);
    at_ = end;
    return {std::string(word), false};
  }

  void SkipBlanks() {
    at_ = std::min(text_.find_first_not_of(" \t\n", at_), text_.size());
  }

  [[noreturn]] void Fail(const std::string& expected) const {
    throw Error(ErrorKind::kUsage,
                std::string(what_) + ": '" + std::string(text_) +
                    "': expected " + expected + " at character " +
                    std::to_string(at_ + 1) +
                    "; write NAME >= VALUE, several joined by 'and'");
  }

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

bool Compare(double actual, CompareOp op, double wanted) {
  switch (op) {
    case CompareOp::kGreaterEqual:
      return actual >= wanted;
    case CompareOp::kLessEqual:
      return actual <= wanted;
    case CompareOp::kLess:
      return actual < wanted;
    case CompareOp::kGreater:
      return actual > wanted;
    case CompareOp::kEqual:
      return actual == wanted;
    case CompareOp::kNotEqual:
      return actual != wanted;
  }
  return false;
}

std::string TextOf(const FieldValue& value) {
  const double* number = std::get_if<double>(&value);
  return number ? FormatNumber(*number) : std::get<std::string>(value);
}

bool Compare(const FieldValue& actual, CompareOp op, const FieldValue& wanted) {
  const double* left = std::get_if<double>(&actual);
  const double* right = std::get_if<double>(&wanted);
  if (left && right) return Compare(*left, op, *right);
  const bool same = SameText(TextOf(actual), TextOf(wanted));
  if (op == CompareOp::kEqual) return same;
  return op == CompareOp::kNotEqual && !same;
}

}  // namespace

std::vector<Comparison> ParseExpression(std::string_view text,
                                        std::string_view what) {
  return Parser(text, what).Parse();
}

Check Evaluate(const Comparison& comparison, const FieldLookup& lookup) {
  const auto actual = lookup(comparison.name);
  if (!actual) return {.text = comparison.text, .actual = "no such value"};
  return {.text = comparison.text,
          .met = Compare(*actual, comparison.op, comparison.value),
          .actual = TextOf(*actual),
          .value = *actual};
}

bool AllMet(const std::vector<Comparison>& comparisons,
            const FieldLookup& lookup) {
  return std::ranges::all_of(comparisons, [&](const Comparison& comparison) {
    return Evaluate(comparison, lookup).met;
  });
}

}  // namespace dtrain
