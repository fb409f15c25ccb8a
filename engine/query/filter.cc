// Expressions of --filter and --require: a parser by recursive descent and the
// evaluation of its tree.
//
// Logic has two values. A comparison with a missing value is false, except that
// a missing value differs (!=) from every other; `not` turns each result round.
// So `not label ~ "^old"` includes experiments without labels.
//
// The grammar, from the weakest operator on: OR of ANDs of NOTs, where NOT is
// `not`, parentheses or a comparison. A literal is converted by the kind of its
// field when it is parsed (ParseLiteral), so that a wrong value is an error
// with its place and a row costs no parsing. Each node keeps its text for
// messages.
//
// ParsePlain reads the expressions of the first version, in which a name ends
// at a blank or operator only. It is tried where the full syntax fails, and its
// own error is never shown.

#include "engine/query/filter.h"

#include <algorithm>
#include <charconv>
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

}  // namespace

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
    if (!nests) return ParseComparison();
    // The parser and the evaluation recurse, and the text comes from a user.
    if (depth == Filter::kMaxDepth) {
      tokens_.Fail(ErrorKind::kUsage,
                   "more than " + std::to_string(Filter::kMaxDepth) +
                       " levels of parentheses and 'not'",
                   first.begin);
    }
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

  Filter ParseComparison() {
    const std::size_t begin = tokens_.Peek().begin;
    Filter filter;
    filter.kind_ = Kind::kComparison;
    Comparison& comparison = filter.comparison_;
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
      ParseOperator(field, comparison);
    }
    filter.text_ = TextFrom(begin);
    return negated ? Not(std::move(filter)) : filter;
  }

  static Filter Not(Filter filter) {
    Filter inverse;
    inverse.kind_ = Kind::kNot;
    inverse.text_ = filter.text_;
    inverse.parts_.push_back(std::move(filter));
    return inverse;
  }

  void ParseOperator(const ResolvedField& field, Comparison& comparison) {
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
    comparison.values.push_back(ParseValue(field, comparison));
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
  return MatchesIf([&](const Comparison& comparison) {
    return comparison.Holds(row(comparison.field));
  });
}

bool Filter::MatchesIf(
    const std::function<bool(const Comparison&)>& holds) const {
  const auto matches = [&](const Filter& part) {
    return part.MatchesIf(holds);
  };
  switch (kind_) {
    case Kind::kAnd:
      return std::ranges::all_of(parts_, matches);
    case Kind::kOr:
      return std::ranges::any_of(parts_, matches);
    case Kind::kNot:
      return !matches(parts_.front());
    case Kind::kComparison:
      return holds(comparison_);
  }
  return false;
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
  if (kind_ == Kind::kComparison) fields.insert(comparison_.field);
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
