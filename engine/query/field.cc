#include "engine/query/field.h"

#include <cmath>

#include "engine/base/text.h"

namespace dtrain {

std::string_view FunctionName(FieldFunction function) {
  switch (function) {
    case FieldFunction::kNone:
      return "";
    case FieldFunction::kMin:
      return "min";
    case FieldFunction::kMax:
      return "max";
    case FieldFunction::kLast:
      return "last";
    case FieldFunction::kAt:
      return "at";
    case FieldFunction::kSpark:
      return "spark";
  }
  return "";
}

std::string FieldName::Text() const {
  if (function == FieldFunction::kNone) return name;
  std::string text = std::string(FunctionName(function)) + "(" + name;
  if (function == FieldFunction::kAt) text += "," + FormatNumber(length);
  return text + ")";
}

bool IsNumber(const FieldValue& value) {
  return std::holds_alternative<double>(value) ||
         std::holds_alternative<std::int64_t>(value);
}

namespace {

// Compares exactly, though a double cannot hold every integer.
std::partial_ordering CompareExactly(std::int64_t a, double b) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kBeyond) return std::partial_ordering::less;
  if (b < -kBeyond) return std::partial_ordering::greater;
  // Now floor(b) fits into 64 bits. The integers decide unless they are equal;
  // then a fraction of b makes it the greater one.
  const double whole = std::floor(b);
  const auto order = a <=> static_cast<std::int64_t>(whole);
  if (order != 0 || whole == b) return order;
  return std::partial_ordering::less;
}

}  // namespace

std::partial_ordering CompareNumbers(const FieldValue& a, const FieldValue& b) {
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  if (left != nullptr && right != nullptr) return *left <=> *right;
  if (left != nullptr) return CompareExactly(*left, std::get<double>(b));
  if (right != nullptr) {
    return 0 <=> CompareExactly(*right, std::get<double>(a));
  }
  return std::get<double>(a) <=> std::get<double>(b);
}

bool IsNull(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    return std::isnan(*number);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return texts->empty();
  }
  return std::holds_alternative<std::monostate>(value);
}

std::string FieldText(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    return FormatNumber(*number);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return std::to_string(*whole);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* time = std::get_if<Timestamp>(&value)) {
    return FormatTimestamp(*time);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return Join(*texts, ",");
  }
  return "";
}

bool ComesBefore(const FieldValue& a, const FieldValue& b, bool descending) {
  if (IsNull(a) || IsNull(b)) return !IsNull(a) && IsNull(b);
  const FieldValue& first = descending ? b : a;
  const FieldValue& second = descending ? a : b;
  if (IsNumber(first) && IsNumber(second)) {
    return CompareNumbers(first, second) < 0;
  }
  if (first.index() == second.index()) return first < second;
  // Of two kinds, as in a hyperparameter that is a number in some trials.
  const auto rank = [](const FieldValue& value) {
    return IsNumber(value)                            ? 0
           : std::holds_alternative<Timestamp>(value) ? 1
                                                      : 2;
  };
  if (rank(first) != rank(second)) return rank(first) < rank(second);
  return FieldText(first) < FieldText(second);
}

}  // namespace dtrain
