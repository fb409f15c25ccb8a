#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// Value of a field in one row: none, a number (a duration in seconds), a text,
/// a time, or several texts such as labels. An integer is not a double, which
/// is exact only up to 2^53.
using FieldValue =
    std::variant<std::monostate, double, std::int64_t, std::string, Timestamp,
                 std::vector<std::string>>;

/// Kinds of values that a field has. kAny: numbers or texts, as with a
/// hyperparameter.
/// kShare: numbers from 0 to 1.
enum class FieldKind {
  kNumber,
  kText,
  kTime,
  kDuration,
  kBytes,
  kTexts,
  kAny,
  kShare
};

/// Functions of the values that a trial reported of a metric.
enum class FieldFunction { kNone, kMin, kMax, kLast, kAt, kSpark };

/// "min" and so on; empty for kNone.
std::string_view FunctionName(FieldFunction function);

/// A field as an expression names it: `id`, `hp.lr`, `min(loss)`,
/// `at(loss,300)`.
struct FieldName {
  FieldFunction function = FieldFunction::kNone;
  std::string name;   // of the field, or of the function's metric
  double length = 0;  // of kAt

  /// The field in the language of expressions, without blanks.
  std::string Text() const;

  auto operator<=>(const FieldName&) const = default;
};

/// The meaning of a field.
struct ResolvedField {
  FieldKind kind = FieldKind::kAny;
  // The only texts that it can have, such as states; empty: any.
  std::vector<std::string> words = {};
  // Ends the error of a comparison that the field does not allow; empty: names
  // its kind.
  std::string hint = {};
};

/// Returns the meaning of a field. Throws Error for an unknown or ambiguous
/// one, its text naming the possible ones.
using FieldResolver = std::function<ResolvedField(const FieldName&)>;

/// Returns the value of a field in a row.
using FieldLookup = std::function<FieldValue(const FieldName&)>;

/// Surroundings of an expression.
struct QueryContext {
  std::string option;  // "--filter": the first words of every error
  FieldResolver resolve;
  Timestamp now{0};  // of times such as -2d
  // A name behind an operator that compares is a field, not a text.
  bool compares_fields = false;
};

/// Result of a requirement.
struct Check {
  std::string text;  // as it was written
  bool met = false;
  std::string actual;  // the values of its names, or why there are none
  // The value of the name, if the requirement is a single comparison; empty: it
  // has none.
  std::optional<FieldValue> value;
};

/// True for an integer and any other number.
bool IsNumber(const FieldValue& value);

/// Compares two numbers by their exact values; NaN is unordered. REQUIRES:
/// IsNumber of both.
std::partial_ordering CompareNumbers(const FieldValue& a, const FieldValue& b);

/// True if there is no value: none, NaN, or no text of several.
bool IsNull(const FieldValue& value);

/// The value as text: integers in full, other numbers as FormatNumber does,
/// several texts joined by commas.
std::string FieldText(const FieldValue& value);

/// Orders rows by a value: numbers, then times, then texts by their bytes;
/// missing values last, whether `descending` or not.
bool ComesBefore(const FieldValue& a, const FieldValue& b, bool descending);

}  // namespace dtrain
