// Expressions of --filter and --require: a parser by recursive descent and the
// evaluation of its tree.
//
// Logic has two values. A comparison with a missing value is false, except that
// a missing value differs (!=) from every other; `not` turns each result round.
// So `not label ~ "^old"` includes experiments without labels.
//
// The grammar, from the weakest operator on: OR of ANDs of NOTs, where NOT is
// `not`, parentheses or a comparison. A parenthesis belongs to a term if an
// operator of terms follows the one that closes it (FindTerms). A literal is
// converted by the kind of its field when it is parsed (ParseLiteral), so that
// a wrong value is an error with its place and a row costs no parsing. Each
// node keeps its text for messages.
//
// ParsePlain reads the expressions of the first version, in which a name ends
// at a blank or operator only. It is tried where the full syntax fails, and its
// own error is never shown.

#include "engine/query/filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <strings.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/query/tokens.h"

namespace dtrain {
namespace {

constexpr std::chrono::hours kDay{24};

bool IsSameText(const std::string& a, const std::string& b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool IsOrder(CompareOp op) {
  return op == CompareOp::kLess || op == CompareOp::kLessEqual ||
         op == CompareOp::kGreater || op == CompareOp::kGreaterEqual;
}

std::optional<double> ParseNumber(const std::string& text) {
  if (IsSameText(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

// Returns an integer for a text that is one.
std::optional<FieldValue> ParseNumberValue(const std::string& text) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto [rest, error] = std::from_chars(begin, end, whole);
  if (error == std::errc() && rest == end) return whole;
  return ParseNumber(text);
}

std::optional<double> ParseSeconds(const std::string& text) {
  try {
    return std::chrono::duration<double>(ParseDuration(text, "")).count();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "10 MB" without the blank, in powers of 1000.
std::optional<double> ParseBytes(const std::string& text) {
  double scale = 1;
  for (const std::string_view unit : {"B", "kB", "MB", "GB", "TB"}) {
    const std::size_t digits = text.size() - std::min(unit.size(), text.size());
    const auto number = ParseNumber(text.substr(0, digits));
    if (number && IsSameText(text.substr(digits), std::string(unit))) {
      return *number * scale;
    }
    scale *= 1000;
  }
  return std::nullopt;
}

// "a, b, c", of many only the first.
std::string FirstWords(const std::vector<std::string>& words) {
  constexpr std::size_t kMaxWords = 20;
  if (words.size() <= kMaxWords) return Join(words, ", ");
  return Join(std::span(words).first(kMaxWords), ", ") + ", ... (" +
         std::to_string(words.size()) + ")";
}

// True if `op` asks for this order of the actual value and the wanted one.
bool IsAskedFor(std::partial_ordering order, CompareOp op) {
  switch (op) {
    case CompareOp::kLess:
      return order < 0;
    case CompareOp::kLessEqual:
      return order <= 0;
    case CompareOp::kGreater:
      return order > 0;
    case CompareOp::kGreaterEqual:
      return order >= 0;
    default:
      return false;
  }
}

bool Equals(const FieldValue& actual, const Literal& literal) {
  if (std::holds_alternative<std::monostate>(actual)) return false;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&actual)) {
    return std::ranges::any_of(
        *texts, [&](const std::string& text) { return Equals(text, literal); });
  }
  if (IsNumber(actual) && IsNumber(literal.value)) {
    return CompareNumbers(actual, literal.value) == 0;
  }
  const auto* time = std::get_if<Timestamp>(&actual);
  const auto* begin = std::get_if<Timestamp>(&literal.value);
  if (time != nullptr && begin != nullptr) {
    return literal.whole_day ? *time >= *begin && *time < *begin + kDay
                             : *time == *begin;
  }
  // A number is compared with a text as it was written: 7.10 is not 7.1.
  return IsSameText(FieldText(actual), literal.text);
}

bool IsOrdered(const FieldValue& actual, CompareOp op, const Literal& literal) {
  if (IsNumber(actual) && IsNumber(literal.value)) {
    return IsAskedFor(CompareNumbers(actual, literal.value), op);
  }
  const auto* time = std::get_if<Timestamp>(&actual);
  if (time == nullptr || actual.index() != literal.value.index()) return false;
  const Timestamp begin = std::get<Timestamp>(literal.value);
  // After a day, or not after it, is meant from its end.
  const bool at_end = op == CompareOp::kGreater || op == CompareOp::kLessEqual;
  const Timestamp end = literal.whole_day ? begin + kDay - Timestamp(1) : begin;
  return IsAskedFor(*time <=> (at_end ? end : begin), op);
}

// True for == != < <= > >=.
bool Compares(const Token& token) {
  return token.is("==") || token.is("!=") || token.is("<") || token.is("<=") ||
         token.is(">") || token.is(">=");
}

double ToDouble(const FieldValue& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) {
    return static_cast<double>(*whole);
  }
  return std::get<double>(number);
}

// Returns the rest of a division, with the sign of `b`. REQUIRES: b ≠ 0.
double Remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t Remainder(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;  // the least integer has no quotient
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

FieldValue CalculateOne(const FieldValue& a, char sign, const FieldValue& b) {
  if (!IsNumber(a) || !IsNumber(b)) return {};
  const double x = ToDouble(a);
  const double y = ToDouble(b);
  if ((sign == '/' || sign == '%') && y == 0) return {};
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  const bool whole = left != nullptr && right != nullptr;
  std::int64_t result = 0;
  switch (sign) {
    case '+':
      if (whole && !__builtin_add_overflow(*left, *right, &result)) {
        return result;
      }
      return x + y;
    case '-':
      if (whole && !__builtin_sub_overflow(*left, *right, &result)) {
        return result;
      }
      return x - y;
    case '*':
      if (whole && !__builtin_mul_overflow(*left, *right, &result)) {
        return result;
      }
      return x * y;
    case '/':
      return x / y;
    default:
      if (whole) return Remainder(*left, *right);
      return Remainder(x, y);
  }
}

}  // namespace

FieldValue Term::Calculate(const FieldLookup& row) const {
  std::vector<FieldValue> values;
  for (const Part& part : parts) {
    if (const auto* value = std::get_if<FieldValue>(&part)) {
      values.push_back(*value);
    } else if (const auto* field = std::get_if<FieldName>(&part)) {
      values.push_back(row(*field));
    } else {
      const FieldValue right = std::move(values.back());
      values.pop_back();
      values.back() = CalculateOne(values.back(), std::get<char>(part), right);
    }
  }
  return IsNumber(values.back()) ? values.back() : FieldValue();
}

bool Comparison::HoldsIn(const FieldLookup& row) const {
  if (left.parts.empty()) return Holds(row(field));
  const FieldValue a = left.Calculate(row);
  const FieldValue b = right.Calculate(row);
  if (IsNull(a) || IsNull(b)) return false;
  const std::partial_ordering order = CompareNumbers(a, b);
  if (op == CompareOp::kEqual) return order == 0;
  return op == CompareOp::kNotEqual ? order != 0 : IsAskedFor(order, op);
}

std::vector<FieldName> Comparison::Fields() const {
  if (left.parts.empty()) return {field};
  std::vector<FieldName> fields;
  for (const Term* term : {&left, &right}) {
    for (const Term::Part& part : term->parts) {
      if (const auto* name = std::get_if<FieldName>(&part)) {
        fields.push_back(*name);
      }
    }
  }
  return fields;
}

bool Comparison::Holds(const FieldValue& actual) const {
  const auto equals = [&](const Literal& one) { return Equals(actual, one); };
  switch (op) {
    case CompareOp::kEqual:
    case CompareOp::kIn:
      return std::ranges::any_of(values, equals);
    case CompareOp::kNotEqual:
      return std::ranges::none_of(values, equals);
    case CompareOp::kIsNull:
      return IsNull(actual);
    case CompareOp::kMatches:
      if (const auto* texts = std::get_if<std::vector<std::string>>(&actual)) {
        return std::ranges::any_of(*texts, [&](const std::string& text) {
          return regex->Matches(text);
        });
      }
      return !IsNull(actual) && regex->Matches(FieldText(actual));
    case CompareOp::kLess:
    case CompareOp::kLessEqual:
    case CompareOp::kGreater:
    case CompareOp::kGreaterEqual:
      return IsOrdered(actual, op, values.front());
  }
  return false;
}

// One parse of one expression.
class FilterParser {
 public:
  FilterParser(std::string_view text, const QueryContext& context)
      : tokens_(text, context), text_(text), context_(context) {}

  Filter Parse() {
    Filter filter = ParseOr(0);
    const Token& rest = tokens_.Peek();
    if (rest.kind != Token::Kind::kEnd) {
      tokens_.Expected("'and' or 'or'", rest.begin, HintFor(rest));
    }
    return filter;
  }

  // NAME OP VALUE, joined by `and`.
  Filter ParsePlain() {
    Filter all{};
    all.text_ = std::string(text_);
    do {
      all.parts_.push_back(ParsePlainComparison());
    } while (ConsumePlainAnd());
    return all.parts_.size() == 1 ? std::move(all.parts_.front()) : all;
  }

 private:
  using Kind = Filter::Kind;

  Filter ParseOr(int depth) {
    return ParseChain(Kind::kOr, "or", [&] { return ParseAnd(depth); });
  }

  Filter ParseAnd(int depth) {
    return ParseChain(Kind::kAnd, "and", [&] { return ParseNot(depth); });
  }

  template <typename ParsePart>
  Filter ParseChain(Kind kind, std::string_view word,
                    const ParsePart& parse_part) {
    const std::size_t begin = tokens_.Peek().begin;
    Filter first = parse_part();
    if (!tokens_.Peek().is_keyword(word)) return first;
    Filter chain;
    chain.kind_ = kind;
    chain.parts_.push_back(std::move(first));
    while (tokens_.ConsumeKeyword(word)) chain.parts_.push_back(parse_part());
    chain.text_ = TextFrom(begin);
    return chain;
  }

  Filter ParseNot(int depth) {
    const Token first = tokens_.Peek();
    const bool nests = first.is("(") || first.is_keyword("not");
    if (!nests || (first.is("(") && OpensTerm())) return ParseComparison(depth);
    CheckDepth(depth, first);
    (void)tokens_.Next();
    Filter filter;
    if (first.is("(")) {
      filter = ParseOr(depth + 1);
      if (!tokens_.ConsumeIf(")")) {
        tokens_.Expected("')', 'and' or 'or'", tokens_.Peek().begin,
                         HintFor(tokens_.Peek()));
      }
    } else {
      filter.kind_ = Kind::kNot;
      filter.parts_.push_back(ParseNot(depth + 1));
    }
    filter.text_ = TextFrom(first.begin);
    return filter;
  }

  // The parser and the evaluation recurse, and the text comes from a user.
  void CheckDepth(int depth, const Token& token) const {
    if (depth < Filter::kMaxDepth) return;
    tokens_.Fail(ErrorKind::kUsage,
                 "more than " + std::to_string(Filter::kMaxDepth) +
                     " levels of parentheses and 'not'",
                 token.begin);
  }

  Filter ParseComparison(int depth) {
    const std::size_t begin = tokens_.Peek().begin;
    Filter filter;
    filter.kind_ = Kind::kComparison;
    Comparison& comparison = filter.comparison_;
    if (BeginsWithTerm()) {
      ParseTerms(comparison, depth);
      filter.text_ = TextFrom(begin);
      return filter;
    }
    comparison.field = tokens_.ParseField();
    const ResolvedField field = tokens_.ResolveValue(comparison.field, begin);
    const bool negated = tokens_.ConsumeKeyword("not");
    const Token op = tokens_.Peek();
    if (tokens_.ConsumeKeyword("in")) {
      comparison.op = CompareOp::kIn;
      ParseList(field, comparison);
    } else if (negated) {
      tokens_.Expected("'in'", op.begin);
    } else if (tokens_.ConsumeKeyword("is")) {
      comparison.op = CompareOp::kIsNull;
      const bool inverse = tokens_.ConsumeKeyword("not");
      if (!tokens_.ConsumeKeyword("null")) {
        tokens_.Expected(inverse ? "'null'" : "'null' or 'not null'",
                         tokens_.Peek().begin);
      }
      filter.text_ = TextFrom(begin);
      return inverse ? Not(std::move(filter)) : filter;
    } else {
      ParseOperator(field, comparison, begin, depth);
    }
    filter.text_ = TextFrom(begin);
    return negated ? Not(std::move(filter)) : filter;
  }

  // Finds the parentheses that open a part of a term: behind the one that
  // closes them, a sign or a comparison follows. Each is looked at once,
  // however deep they nest.
  void FindTerms() {
    has_found_terms_ = true;
    std::vector<std::size_t> open;
    try {
      for (Tokens ahead = tokens_; ahead.Peek().kind != Token::Kind::kEnd;) {
        const Token token = ahead.Next();
        if (token.is("(")) open.push_back(token.begin);
        if (!token.is(")") || open.empty()) continue;
        const Token& next = ahead.Peek();
        if (next.IsArithmetic() || Compares(next)) terms_.insert(open.back());
        open.pop_back();
      }
    } catch (const Error&) {
      // A quote is not closed, which the parser reports in its turn.
    }
  }

  // REQUIRES: the next token is "(".
  bool OpensTerm() {
    if (!has_found_terms_) FindTerms();
    return terms_.contains(tokens_.Peek().begin);
  }

  static bool IsPlainNumber(const Token& token) {
    return token.kind == Token::Kind::kWord && ParseNumberValue(token.text);
  }

  // Steps over an operand without parentheses. False if none follows.
  static bool SkipOperand(Tokens& ahead) {
    try {
      if (IsPlainNumber(ahead.Peek())) {
        (void)ahead.Next();
      } else {
        (void)ahead.ParseField();
      }
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // True if the next comparison begins with a term: with arithmetic, or with a
  // number that is not the name of a field.
  bool BeginsWithTerm() const {
    const Token& first = tokens_.Peek();
    if (first.is("(")) return true;
    Tokens ahead = tokens_;
    if (!SkipOperand(ahead)) return false;
    return ahead.Peek().IsArithmetic() ||
           (IsPlainNumber(first) && Compares(ahead.Peek()) &&
            !tokens_.IsKnown({.name = first.text}));
  }

  // True if what follows an operator is a term, and not a value of `field`.
  bool ContinuesWithTerm(const ResolvedField& field) const {
    const Token& first = tokens_.Peek();
    if (!IsNumeric(field.kind)) return false;
    if (first.is("(")) return true;
    Tokens ahead = tokens_;
    if (!SkipOperand(ahead)) return false;
    if (ahead.Peek().IsArithmetic()) return true;
    return context_.compares_fields && first.kind == Token::Kind::kWord &&
           !IsPlainNumber(first) && tokens_.IsKnown({.name = first.text});
  }

  static bool IsNumeric(FieldKind kind) {
    return kind != FieldKind::kText && kind != FieldKind::kTexts &&
           kind != FieldKind::kTime;
  }

  // TERM OP TERM.
  void ParseTerms(Comparison& comparison, int depth) {
    ParseSum(comparison.left, depth);
    const Token token = tokens_.Peek();
    if (!Compares(token)) {
      tokens_.Expected("an operator (== != < <= > >= + - * / %)", token.begin,
                       HintFor(token));
    }
    comparison.op = *FindOperator(tokens_.Next());
    ParseSum(comparison.right, depth);
  }

  void ParseSum(Term& term, int depth) {
    ParseSigns(term, "+-", [&] {
      ParseSigns(term, "*/%", [&] { ParseOperand(term, depth); });
    });
  }

  // Signs of the same strength are applied from the left.
  template <typename ParsePart>
  void ParseSigns(Term& term, std::string_view signs,
                  const ParsePart& parse_part) {
    parse_part();
    while (tokens_.Peek().IsArithmetic() &&
           signs.find(tokens_.Peek().text[0]) != signs.npos) {
      const char sign = tokens_.Next().text[0];
      parse_part();
      term.parts.emplace_back(sign);
    }
  }

  void ParseOperand(Term& term, int depth) {
    const Token token = tokens_.Peek();
    if (token.is("(")) {
      CheckDepth(depth, token);
      (void)tokens_.Next();
      ParseSum(term, depth + 1);
      if (tokens_.ConsumeIf(")")) return;
      tokens_.Expected("')' or one of + - * / %", tokens_.Peek().begin,
                       HintFor(tokens_.Peek()));
    }
    if (IsPlainNumber(token)) {
      term.parts.emplace_back(*ParseNumberValue(tokens_.Next().text));
      return;
    }
    if (token.kind != Token::Kind::kWord &&
        token.kind != Token::Kind::kQuoted) {
      tokens_.Expected("a number or name", token.begin, HintFor(token));
    }
    const FieldName field = tokens_.ParseField();
    const ResolvedField resolved = tokens_.ResolveValue(field, token.begin);
    if (!IsNumeric(resolved.kind)) {
      tokens_.Expected(
          "a number", token.begin,
          "'" + field.Text() + "' is a " +
              (resolved.kind == FieldKind::kTime ? "time" : "text"));
    }
    term.parts.emplace_back(field);
  }

  static Filter Not(Filter filter) {
    Filter inverse;
    inverse.kind_ = Kind::kNot;
    inverse.text_ = filter.text_;
    inverse.parts_.push_back(std::move(filter));
    return inverse;
  }

  // `begin`: of the field, which is taken.
  void ParseOperator(const ResolvedField& field, Comparison& comparison,
                     std::size_t begin, int depth) {
    const Token token = tokens_.Peek();
    const auto op = FindOperator(token);
    if (!op) {
      tokens_.Expected("an operator (== != < <= > >= ~ in is)", token.begin,
                       HintFor(token));
    }
    (void)tokens_.Next();
    comparison.op = *op;
    CheckOperator(field, comparison, token.begin);
    if (*op == CompareOp::kMatches) return ParseRegex(comparison);
    if (!ContinuesWithTerm(field)) {
      comparison.values.push_back(ParseValue(field, comparison));
      return;
    }
    // Beside a term, a name that looks like a number is a number.
    if (const auto number = ParseNumberValue(comparison.field.name);
        number && text_.substr(begin).starts_with(comparison.field.name)) {
      comparison.left.parts.emplace_back(*number);
    } else {
      comparison.left.parts.emplace_back(std::move(comparison.field));
    }
    comparison.field = {};
    ParseSum(comparison.right, depth);
  }

  // Refuses an order of texts.
  void CheckOperator(const ResolvedField& field, const Comparison& comparison,
                     std::size_t at) const {
    const bool is_text =
        field.kind == FieldKind::kText || field.kind == FieldKind::kTexts;
    if (!is_text || !IsOrder(comparison.op)) return;
    tokens_.Expected("==, !=, ~ or in", at,
                     HintOr(field, comparison, "is a text"));
  }

  static std::string HintOr(const ResolvedField& field,
                            const Comparison& comparison,
                            const std::string& what) {
    if (!field.hint.empty()) return field.hint;
    return "'" + comparison.field.Text() + "' " + what;
  }

  void ParseRegex(Comparison& comparison) {
    const Token token = tokens_.Peek();
    if (token.kind != Token::Kind::kWord &&
        token.kind != Token::Kind::kQuoted) {
      tokens_.Expected("a regular expression", token.begin,
                       "write it in quotes");
    }
    comparison.regex.emplace(tokens_.Next().text, context_.option);
  }

  void ParseList(const ResolvedField& field, Comparison& comparison) {
    const std::string hint = "write in (VALUE, VALUE)";
    if (!tokens_.ConsumeIf("(")) {
      tokens_.Expected("'('", tokens_.Peek().begin, hint);
    }
    do {
      comparison.values.push_back(ParseValue(field, comparison));
    } while (tokens_.ConsumeIf(","));
    if (tokens_.ConsumeIf(")")) return;
    tokens_.Expected("',' or ')'", tokens_.Peek().begin, hint);
  }

  Literal ParseValue(const ResolvedField& field, const Comparison& comparison) {
    const Token token = tokens_.Peek();
    if (token.kind != Token::Kind::kWord &&
        token.kind != Token::Kind::kQuoted) {
      tokens_.Expected("a value", token.begin, HintFor(token));
    }
    (void)tokens_.Next();
    return ParseLiteral(token, field, comparison);
  }

  FieldValue Measure(const std::optional<FieldValue>& number,
                     std::optional<double> measure, const Token& token,
                     const char* expected, const char* hint) const {
    if (number) return *number;
    if (!measure) tokens_.Expected(expected, token.begin, hint);
    return *measure;
  }

  Literal ParseLiteral(const Token& token, const ResolvedField& field,
                       const Comparison& comparison) const {
    Literal literal{.value = token.text, .text = token.text};
    const bool quoted = token.kind == Token::Kind::kQuoted;
    const auto number = quoted ? std::nullopt : ParseNumberValue(token.text);
    switch (field.kind) {
      case FieldKind::kTime:
        SetTime(token, comparison, literal);
        return literal;
      case FieldKind::kDuration:
        literal.value =
            Measure(number, quoted ? std::nullopt : ParseSeconds(token.text),
                    token, "a duration",
                    "write seconds, or a number with m, h or d such as 10m");
        return literal;
      case FieldKind::kBytes:
        literal.value =
            Measure(number, quoted ? std::nullopt : ParseBytes(token.text),
                    token, "a size",
                    "write bytes, or a number with kB, MB or GB such as 10MB");
        return literal;
      case FieldKind::kNumber:
      case FieldKind::kAny:
        if (number) {
          literal.value = *number;
        } else if (field.kind == FieldKind::kNumber || IsOrder(comparison.op)) {
          const bool any = field.kind == FieldKind::kAny;
          tokens_.Expected("a number", token.begin,
                           HintOr(field, comparison,
                                  any ? "has an order only where it is a number"
                                      : "is a number"));
        }
        return literal;
      case FieldKind::kShare:
        literal.value = ParseShare(token, comparison);
        return literal;
      case FieldKind::kText:
      case FieldKind::kTexts:
        CheckWord(token, field, comparison);
        return literal;
    }
    return literal;
  }

  FieldValue ParseShare(const Token& token,
                        const Comparison& comparison) const {
    const auto number = ParseNumberValue(token.text);
    const bool valid = number && CompareNumbers(*number, 0.0) >= 0 &&
                       CompareNumbers(*number, 1.0) <= 0;
    if (!valid) {
      tokens_.Expected(
          "a number from 0 to 1", token.begin,
          "'" + comparison.field.Text() + "' is a share; write 0.5 for 50%");
    }
    return *number;
  }

  void SetTime(const Token& token, const Comparison& comparison,
               Literal& literal) const {
    if (const auto time = ParseTimestamp(token.text)) {
      literal.value = *time;
      constexpr std::size_t kDate = std::string_view("2026-11-20").size();
      literal.whole_day = token.text.size() <= kDate;
      return;
    }
    const auto ago = token.text.starts_with('-')
                         ? ParseSeconds(token.text.substr(1))
                         : std::nullopt;
    if (!ago) {
      tokens_.Expected("a time", token.begin,
                       "'" + comparison.field.Text() +
                           "' is a time; write 2026-11-20, "
                           "2026-11-20T07:35:44Z, or -2d for two days ago");
    }
    literal.value = context_.now - std::chrono::duration_cast<Timestamp>(
                                       std::chrono::duration<double>(*ago));
  }

  // Refuses a text that the field never has.
  void CheckWord(const Token& token, const ResolvedField& field,
                 const Comparison& comparison) const {
    const auto is_it = [&](const std::string& word) {
      return IsSameText(word, token.text);
    };
    if (field.words.empty() || std::ranges::any_of(field.words, is_it)) return;
    std::string upper = token.text;
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    const std::string guess = DidYouMean(token.text, field.words);
    tokens_.Fail(ErrorKind::kUsage,
                 "'" + comparison.field.Text() + "' is never '" + token.text +
                     "', found",
                 token.begin,
                 "it is one of " + FirstWords(field.words) +
                     (guess.empty() ? DidYouMean(upper, field.words) : guess));
  }

  static std::optional<CompareOp> FindOperator(const Token& token) {
    if (token.is("==")) return CompareOp::kEqual;
    if (token.is("!=")) return CompareOp::kNotEqual;
    if (token.is("<=")) return CompareOp::kLessEqual;
    if (token.is(">=")) return CompareOp::kGreaterEqual;
    if (token.is("<")) return CompareOp::kLess;
    if (token.is(">")) return CompareOp::kGreater;
    if (token.is("~")) return CompareOp::kMatches;
    return std::nullopt;
  }

  // Suggests what was probably meant by a token in a wrong place.
  static std::string HintFor(const Token& token) {
    if (token.is("=")) return "write == for equal";
    const bool begins_with_sign =
        token.kind == Token::Kind::kWord && token.text.size() > 1 &&
        std::string_view("+-*/%").find(token.text[0]) != std::string_view::npos;
    if (begins_with_sign) {
      return "to calculate, write blanks around " + token.text.substr(0, 1);
    }
    if (token.is("!")) return "write 'not' for the opposite";
    if (token.text == "&&" || token.text == "&") return "write 'and'";
    if (token.text == "||" || token.text == "|") return "write 'or'";
    if (token.is_keyword("like") || token.is_keyword("matches")) {
      return "write ~ and a regular expression in quotes";
    }
    if (token.is(")")) return "no '(' is open for it";
    return "";
  }

  std::string TextFrom(std::size_t begin) const {
    return std::string(text_.substr(begin, tokens_.taken_to() - begin));
  }

  Filter ParsePlainComparison();
  bool ConsumePlainAnd();
  Token ParsePlainWord();

  Tokens tokens_;
  std::string_view text_;
  const QueryContext& context_;
  std::size_t at_ = 0;  // of ParsePlain
  bool has_found_terms_ = false;
  std::set<std::size_t> terms_;  // places of "(" in terms
};

namespace {

// Blanks in expressions that ParsePlain reads.
constexpr std::string_view kPlainBlanks = " \t\n";
constexpr std::string_view kEndOfPlainWord = " \t\n<>=!";

}  // namespace

Token FilterParser::ParsePlainWord() {
  const std::size_t begin =
      std::min(text_.find_first_not_of(kPlainBlanks, at_), text_.size());
  if (begin == text_.size()) tokens_.Expected("a name or value", begin);
  const char quote = text_[begin];
  Token token{.kind = Token::Kind::kWord, .begin = begin};
  if (quote == '"' || quote == '\'') {
    const std::size_t close = text_.find(quote, begin + 1);
    if (close == text_.npos) tokens_.Expected("a closing quote", begin);
    token.kind = Token::Kind::kQuoted;
    token.text = std::string(text_.substr(begin + 1, close - begin - 1));
    token.end = close + 1;
  } else {
    token.end =
        std::min(text_.find_first_of(kEndOfPlainWord, begin), text_.size());
    if (token.end == begin) tokens_.Expected("a name or value", begin);
    token.text = std::string(text_.substr(begin, token.end - begin));
  }
  at_ = token.end;
  return token;
}

Filter FilterParser::ParsePlainComparison() {
  Filter filter;
  filter.kind_ = Kind::kComparison;
  const Token name = ParsePlainWord();
  filter.comparison_.field = FieldName{.name = name.text};
  const ResolvedField field =
      tokens_.Resolve(filter.comparison_.field, name.begin);
  at_ = std::min(text_.find_first_not_of(kPlainBlanks, at_), text_.size());
  for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (!text_.substr(at_).starts_with(symbol)) continue;
    filter.comparison_.op = *FindOperator(
        {.kind = Token::Kind::kSymbol, .text = std::string(symbol)});
    CheckOperator(field, filter.comparison_, at_);
    at_ += symbol.size();
    filter.comparison_.values.push_back(
        ParseLiteral(ParsePlainWord(), field, filter.comparison_));
    filter.text_ = std::string(text_.substr(name.begin, at_ - name.begin));
    return filter;
  }
  tokens_.Expected("an operator", at_);
}

bool FilterParser::ConsumePlainAnd() {
  at_ = std::min(text_.find_first_not_of(kPlainBlanks, at_), text_.size());
  if (at_ == text_.size()) return false;
  const Token word = ParsePlainWord();
  if (!word.is_keyword("and")) tokens_.Expected("'and'", word.begin);
  return true;
}

Filter Filter::Parse(std::string_view text, const QueryContext& context) {
  return FilterParser(text, context).Parse();
}

Filter Filter::ParseWithPlainNames(std::string_view text,
                                   const QueryContext& context) {
  try {
    return Parse(text, context);
  } catch (const Error&) {
    try {
      return FilterParser(text, context).ParsePlain();
    } catch (const Error&) {
    }
    throw;
  }
}

bool Filter::Matches(const FieldLookup& row) const {
  return MatchesIf(
      [&](const Comparison& comparison) { return comparison.HoldsIn(row); });
}

bool Filter::MatchesIf(
    const std::function<bool(const Comparison&)>& holds) const {
  return *Decide(holds);
}

std::optional<bool> Filter::Decide(
    const std::function<std::optional<bool>(const Comparison&)>& holds) const {
  if (kind_ == Kind::kComparison) return holds(comparison_);
  if (kind_ == Kind::kNot) {
    const auto part = parts_.front().Decide(holds);
    return part ? std::optional(!*part) : std::nullopt;
  }
  // One part may decide for all: a false one of `and`, a true one of `or`.
  const bool decisive = kind_ == Kind::kOr;
  bool is_open = false;
  for (const Filter& part : parts_) {
    const auto one = part.Decide(holds);
    if (one == decisive) return decisive;
    is_open = is_open || !one;
  }
  return is_open ? std::nullopt : std::optional(!decisive);
}

std::vector<Filter> Filter::Conjuncts() const {
  if (kind_ == Kind::kAnd) return parts_;
  return {*this};
}

const Comparison* Filter::comparison() const {
  return kind_ == Kind::kComparison ? &comparison_ : nullptr;
}

std::vector<FieldName> Filter::Fields() const {
  std::set<FieldName> fields;
  if (kind_ == Kind::kComparison) {
    for (FieldName& field : comparison_.Fields()) {
      fields.insert(std::move(field));
    }
  }
  for (const Filter& part : parts_) {
    for (FieldName& field : part.Fields()) fields.insert(std::move(field));
  }
  return {fields.begin(), fields.end()};
}

namespace {

// Calls `take` for each element of a list separated by commas.
template <typename Take>
void ForEachElement(Tokens& tokens, const Take& take) {
  do {
    take();
  } while (tokens.ConsumeIf(","));
  const Token& rest = tokens.Peek();
  if (rest.kind != Token::Kind::kEnd) {
    tokens.Expected("','", rest.begin, "quote names that have blanks");
  }
}

}  // namespace

std::vector<SortKey> ParseSortKeys(std::string_view text,
                                   const QueryContext& context) {
  Tokens tokens(text, context);
  std::vector<SortKey> keys;
  ForEachElement(tokens, [&] {
    // A metric may be called `-x`; the name as it stands has precedence.
    const bool descending = !tokens.NextIsKnown() && tokens.ConsumeMinus();
    const std::size_t begin = tokens.Peek().begin;
    const SortKey key{.field = tokens.ParseField(), .descending = descending};
    (void)tokens.ResolveValue(key.field, begin);
    keys.push_back(key);
  });
  return keys;
}

std::vector<FieldName> ParseColumns(
    std::string_view text, const QueryContext& context,
    const std::function<std::vector<FieldName>(const std::string&)>& expand) {
  Tokens tokens(text, context);
  std::vector<FieldName> columns;
  ForEachElement(tokens, [&] {
    const std::size_t begin = tokens.Peek().begin;
    FieldName field = tokens.ParseField();
    if (field.function == FieldFunction::kNone && field.name.ends_with(".*")) {
      for (FieldName& one : expand(field.name)) {
        if (std::ranges::count(columns, one) == 0) {
          columns.push_back(std::move(one));
        }
      }
      return;
    }
    (void)tokens.Resolve(field, begin);
    if (std::ranges::count(columns, field) > 0) {
      tokens.Fail(ErrorKind::kUsage,
                  "column '" + field.Text() + "' comes twice,", begin);
    }
    columns.push_back(std::move(field));
  });
  return columns;
}

}  // namespace dtrain
