#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/query/field.h"
#include "engine/query/line_regex.h"

namespace dtrain {

enum class CompareOp {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kMatches,
  kIsNull
};

/// A value in an expression.
struct Literal {
  FieldValue value;
  std::string text;  // as it was written, without quotes
  // A date without a time: `value` is its midnight, and it means the whole day.
  bool whole_day = false;
};

/// A sum, product or the like of numbers and fields.
struct Term {
  /// A number, a field, or one of + - * / % for the two values before it.
  using Part = std::variant<FieldValue, FieldName, char>;

  std::vector<Part> parts;  // in postfix order

  /// Calculates the value in a row. It is an integer if both operands are and
  /// their result is one of 64 bits, but always a double for `/`; `%` has the
  /// sign of the divisor, as in Python. No value if a field has none, or none
  /// that is a number, and for a division by zero.
  FieldValue Calculate(const FieldLookup& row) const;
};

/// `FIELD OP VALUE`, or `TERM OP TERM`.
struct Comparison {
  FieldName field;  // unless there are terms
  CompareOp op = CompareOp::kEqual;
  std::vector<Literal> values;     // one, or those of `in`
  std::optional<LineRegex> regex;  // of kMatches
  Term left;                       // empty: there are no terms
  Term right;

  /// True if the comparison holds for this value of the field. Numbers compare
  /// by value (NaN is different from everything) and texts are equal or not,
  /// whatever their case. A number is compared with a text as it was written:
  /// the text 7.10 is not 7.1. A missing value is different from everything and
  /// meets no other comparison but `is null`. Of several texts, `==`, `in` and
  /// `~` hold if they hold for one, `!=` if it holds for all. REQUIRES: there
  /// are no terms.
  bool Holds(const FieldValue& actual) const;
  /// True if the comparison holds in a row. One of terms does not if a term has
  /// no value, whatever the operator.
  bool HoldsIn(const FieldLookup& row) const;
  /// The fields, some perhaps more than once.
  std::vector<FieldName> Fields() const;
};

/// A condition on rows:
///
///   or         = and { "or" and }
///   and        = not { "and" not }
///   not        = [ "not" ] ( "(" or ")" | comparison )
///   comparison = field compare value | term compare term
///              | field "~" regular-expression
///              | field [ "not" ] "in" "(" value { "," value } ")"
///              | field "is" [ "not" ] "null"
///   compare    = "==" | "!=" | "<" | "<=" | ">" | ">="
///   term       = product { ( "+" | "-" ) product }
///   product    = operand { ( "*" | "/" | "%" ) operand }
///   operand    = number | field | "(" term ")"
///   field      = name | function "(" metric [ "," length ] ")"
///
/// A value's meaning follows from the kind of its field: `10m` is a duration
/// only for a duration. The signs of a term are between blanks; with one, both
/// sides are terms, in which words that look like numbers are numbers.
class Filter {
 public:
  /// Levels of parentheses and `not`; deeper ones are refused.
  static constexpr int kMaxDepth = 100;

  /// True for every row.
  Filter() = default;
  /// Throws Error(kUsage) with the position and what was expected there, or the
  /// error of the resolver.
  static Filter Parse(std::string_view text, const QueryContext& context);
  /// Parses as Parse does, but also expressions of the first version of dtrain,
  /// `NAME OP VALUE and …`, whose names and values extend to the next blank or
  /// operator and so may contain parentheses, commas and `~`.
  static Filter ParseWithPlainNames(std::string_view text,
                                    const QueryContext& context);

  bool Matches(const FieldLookup& row) const;
  /// True if the filter matches with `holds` as the result of each comparison.
  bool MatchesIf(const std::function<bool(const Comparison&)>& holds) const;
  /// Likewise by three values (Kleene, 1938): nothing if the result depends on
  /// comparisons for which `holds` returns nothing.
  std::optional<bool> Decide(
      const std::function<std::optional<bool>(const Comparison&)>& holds) const;
  /// The conditions that are joined by `and` at the top; itself if none are.
  std::vector<Filter> Conjuncts() const;
  /// The comparison, if it is a single one.
  const Comparison* comparison() const;
  /// All fields, each once, in alphabetical order.
  std::vector<FieldName> Fields() const;
  /// The condition as it was written.
  const std::string& text() const { return text_; }

 private:
  friend class FilterParser;
  enum class Kind { kAnd, kOr, kNot, kComparison };

  Kind kind_ = Kind::kAnd;
  std::vector<Filter> parts_;
  Comparison comparison_;  // of kComparison
  std::string text_;
};

/// A key of --sort.
struct SortKey {
  FieldName field;
  bool descending = false;  // written with a minus sign before it
};

/// Parses `-val_accuracy,hp.lr`. A name that is known as it stands, such as a
/// metric `-x`, has no minus sign. Throws Error as Filter::Parse does.
std::vector<SortKey> ParseSortKeys(std::string_view text,
                                   const QueryContext& context);

/// Parses `id,hp.*,min(loss)`. `expand` returns the fields that a name ending
/// in `.*` stands for; such names are not resolved. Throws Error as
/// Filter::Parse does, and for a column that comes twice.
std::vector<FieldName> ParseColumns(
    std::string_view text, const QueryContext& context,
    const std::function<std::vector<FieldName>(const std::string&)>& expand);

}  // namespace dtrain
