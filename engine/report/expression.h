#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dtrain {

/// Value of a name in an expression.
using FieldValue = std::variant<double, std::string>;

/// Looks up a name; none if it stands for nothing.
using FieldLookup =
    std::function<std::optional<FieldValue>(const std::string& name)>;

enum class CompareOp {
  kGreaterEqual,
  kLessEqual,
  kLess,
  kGreater,
  kEqual,
  kNotEqual
};

/// `NAME OP VALUE`.
struct Comparison {
  std::string name;
  CompareOp op = CompareOp::kEqual;
  FieldValue value;
  std::string text;  // as it was written
};

/// Result of a comparison.
struct Check {
  std::string text;  // the comparison
  bool met = false;
  std::string actual;               // what the name stood for, for people
  std::optional<FieldValue> value;  // the same; none: it stood for nothing
};

/// `NAME (>=|<=|<|>|==|!=) VALUE`, joined by `and`. Names and values that hold
/// blanks or operators are written in quotes. Throws Error(kUsage), its text
/// begun by `what` (the option), with what was expected where.
std::vector<Comparison> ParseExpression(std::string_view text,
                                        std::string_view what);

/// Numbers compare as numbers (NaN is different from everything), texts are
/// equal or not, whatever their case. A name that stands for nothing meets no
/// comparison.
Check Evaluate(const Comparison& comparison, const FieldLookup& lookup);

/// True if every comparison holds.
bool AllMet(const std::vector<Comparison>& comparisons,
            const FieldLookup& lookup);

}  // namespace dtrain
