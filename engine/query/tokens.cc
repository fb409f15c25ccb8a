// Words of a filter expression, read on demand with one token of look-ahead.
//
// Names of metrics and hyperparameters may contain almost any character, so a
// word ends only at blanks, operators, parentheses and commas; others are
// quoted. A minus belongs to a word, and ConsumeMinus splits it off where an
// operator is expected. `f(x)` is a function unless a field with just this
// name, parentheses included, is known, as some programs report them. Signs of
// arithmetic are words of their own, between blanks, since `val/acc` and
// `weight-decay` are names.
//
// Errors quote the expression around the place and count characters, not bytes.

#include "engine/query/tokens.h"

#include <algorithm>
#include <array>
#include <vector>

#include <strings.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kEndOfWord = " \t\r\n<>=!~(),";
constexpr std::string_view kArithmetic = "+-*/%";

// Longer symbols first, so that "<=" is not read as "<".
constexpr std::array<std::string_view, 12> kSymbols = {
    "==", "!=", "<=", ">=", "<", ">", "~", "(", ")", ",", "=", "!"};

constexpr std::array kFunctions = {FieldFunction::kMin, FieldFunction::kMax,
                                   FieldFunction::kLast, FieldFunction::kAt,
                                   FieldFunction::kSpark};

// The place of a byte in characters, from 1.
std::size_t CharacterAt(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(
                 std::ranges::count_if(text.substr(0, at), [](const char c) {
                   return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
                 }));
}

// The expression, or of a long one the part around `at`.
std::string Excerpt(std::string_view text, std::size_t at) {
  constexpr std::size_t kWhole = 100;
  constexpr std::size_t kAround = 30;
  if (text.size() <= kWhole) return EscapeForTerminal(text);
  const std::size_t begin = at > kAround ? at - kAround : 0;
  const std::size_t end = std::min(at + kAround, text.size());
  return (begin > 0 ? "..." : "") +
         EscapeForTerminal(text.substr(begin, end - begin)) +
         (end < text.size() ? "..." : "");
}

}  // namespace

bool Token::is_keyword(std::string_view word) const {
  return kind == Kind::kWord && text.size() == word.size() &&
         strncasecmp(text.data(), word.data(), word.size()) == 0;
}

bool Token::IsArithmetic() const {
  return kind == Kind::kWord && text.size() == 1 &&
         kArithmetic.find(text[0]) != kArithmetic.npos;
}

Tokens::Tokens(std::string_view text, const QueryContext& context)
    : text_(text), context_(context) {
  if (text.size() > kMaxBytes) {
    throw Error(ErrorKind::kUsage, context.option + ": the expression has " +
                                       std::to_string(text.size()) +
                                       " bytes; the maximum is " +
                                       std::to_string(kMaxBytes));
  }
  next_ = Read(0);
}

Token Tokens::Next() {
  Token token = std::move(next_);
  taken_to_ = token.end;
  next_ = Read(token.end);
  return token;
}

bool Tokens::ConsumeIf(std::string_view symbol) {
  if (!next_.is(symbol)) return false;
  (void)Next();
  return true;
}

bool Tokens::ConsumeKeyword(std::string_view word) {
  if (!next_.is_keyword(word)) return false;
  (void)Next();
  return true;
}

bool Tokens::ConsumeMinus() {
  const bool minus =
      next_.kind == Token::Kind::kWord && next_.text.starts_with('-');
  if (minus) next_ = Read(next_.begin + 1);
  return minus;
}

Token Tokens::Read(std::size_t from) const {
  const std::size_t begin =
      std::min(text_.find_first_not_of(kBlanks, from), text_.size());
  if (begin == text_.size()) return {.begin = begin, .end = begin};
  if (text_[begin] == '"' || text_[begin] == '\'') return ReadQuoted(begin);
  for (const std::string_view symbol : kSymbols) {
    if (!text_.substr(begin).starts_with(symbol)) continue;
    return {.kind = Token::Kind::kSymbol,
            .text = std::string(symbol),
            .begin = begin,
            .end = begin + symbol.size()};
  }
  const std::size_t end =
      std::min(text_.find_first_of(kEndOfWord, begin), text_.size());
  return {.kind = Token::Kind::kWord,
          .text = std::string(text_.substr(begin, end - begin)),
          .begin = begin,
          .end = end};
}

Token Tokens::ReadQuoted(std::size_t from) const {
  const std::size_t end = text_.find(text_[from], from + 1);
  if (end == std::string_view::npos) Expected("a closing quote", from);
  return {.kind = Token::Kind::kQuoted,
          .text = std::string(text_.substr(from + 1, end - from - 1)),
          .begin = from,
          .end = end + 1};
}

bool Tokens::IsKnown(const FieldName& field) const {
  try {
    (void)context_.resolve(field);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the sign in a name such as `a*b` before which a known name ends, or
// "".
std::string Tokens::FindArithmetic(const std::string& name) const {
  for (std::size_t at = name.find_first_of(kArithmetic); at != name.npos;
       at = name.find_first_of(kArithmetic, at + 1)) {
    if (IsKnown({.name = name.substr(0, at)})) return name.substr(at, 1);
  }
  return "";
}

bool Tokens::NextIsKnown() const {
  return next_.kind == Token::Kind::kWord && IsKnown({.name = next_.text});
}

FieldName Tokens::ParseField() {
  const bool is_name =
      next_.kind == Token::Kind::kWord || next_.kind == Token::Kind::kQuoted;
  if (!is_name) Expected("a name", next_.begin);
  const Token word = Next();
  const bool calls = word.kind == Token::Kind::kWord && next_.is("(");
  if (!calls) return {.name = word.text};
  const std::size_t close = text_.find(')', word.end);
  if (next_.begin == word.end && close != std::string_view::npos) {
    std::string whole(text_.substr(word.begin, close + 1 - word.begin));
    if (IsKnown({.name = whole})) {
      while (taken_to_ <= close) (void)Next();
      return {.name = std::move(whole)};
    }
  }
  return ParseFunction(word);
}

FieldName Tokens::ParseFunction(const Token& word) {
  const auto function = std::ranges::find(kFunctions, word.text, &FunctionName);
  if (function == kFunctions.end()) {
    std::vector<std::string> names;
    for (const FieldFunction known : kFunctions) {
      names.emplace_back(FunctionName(known));
    }
    Fail(ErrorKind::kUsage, "unknown function '" + word.text + "'", word.begin,
         "available: " + Join(names, ", "));
  }
  (void)Next();
  FieldName field{.function = *function};
  const bool is_name =
      next_.kind == Token::Kind::kWord || next_.kind == Token::Kind::kQuoted;
  if (!is_name) Expected("the name of a metric", next_.begin);
  field.name = Next().text;
  if (*function == FieldFunction::kAt) {
    const std::string hint = "write at(METRIC, LENGTH), such as at(loss, 300)";
    if (!ConsumeIf(",")) Expected("','", next_.begin, hint);
    const auto length = ParseFinite(next_.text);
    if (!length || *length <= 0) {
      Expected("a length above 0", next_.begin, hint);
    }
    field.length = *length;
    (void)Next();
  }
  if (!ConsumeIf(")")) Expected("')'", next_.begin);
  return field;
}

ResolvedField Tokens::Resolve(const FieldName& field, std::size_t begin) const {
  try {
    return context_.resolve(field);
  } catch (const Error& error) {
    const std::string sign = FindArithmetic(field.name);
    throw Error(error.kind(), context_.option + ": '" + Excerpt(text_, begin) +
                                  "': at character " +
                                  std::to_string(CharacterAt(text_, begin)) +
                                  ": " + error.what() +
                                  (sign.empty() ? ""
                                                : "; to calculate, write "
                                                  "blanks around " +
                                                      sign));
  }
}

ResolvedField Tokens::ResolveValue(const FieldName& field,
                                   std::size_t begin) const {
  if (field.function == FieldFunction::kSpark) {
    Expected("a value", begin, "spark() only draws a column of --columns");
  }
  return Resolve(field, begin);
}

void Tokens::Expected(const std::string& what, std::size_t at,
                      const std::string& hint) const {
  Fail(ErrorKind::kUsage, "expected " + what, at, hint);
}

void Tokens::Fail(ErrorKind kind, const std::string& problem, std::size_t at,
                  const std::string& hint) const {
  throw Error(kind, context_.option + ": '" + Excerpt(text_, at) +
                        "': " + problem + " at character " +
                        std::to_string(CharacterAt(text_, at)) +
                        (hint.empty() ? "" : "; " + hint));
}

}  // namespace dtrain
