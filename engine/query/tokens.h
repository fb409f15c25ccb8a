#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/query/field.h"

namespace dtrain {

/// A piece of an expression.
struct Token {
  enum class Kind {
    kEnd,
    kWord,    // a name, number or keyword without quotes
    kQuoted,  // a text in quotes; `text` is without them
    kSymbol,  // ( ) , == != < <= > >= ~ and the mistakes = !
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::size_t begin = 0;  // bytes of the expression, with quotes
  std::size_t end = 0;

  bool is(std::string_view symbol) const {
    return kind == Kind::kSymbol && text == symbol;
  }
  /// True for this keyword, whatever its case.
  bool is_keyword(std::string_view word) const;
  /// True for + - * / % between blanks. Within a word they are a part of it.
  bool IsArithmetic() const;
};

/// Splits an expression into tokens, and reports errors with their position.
class Tokens {
 public:
  /// More bytes are refused.
  static constexpr std::size_t kMaxBytes = 65536;

  /// Throws Error(kUsage) for a text that is too long. `text` and `context`
  /// must outlive this.
  Tokens(std::string_view text, const QueryContext& context);

  /// The next token. Throws Error(kUsage) for a quote that is not closed.
  const Token& Peek() const { return next_; }
  /// Returns the next token and steps over it.
  Token Next();
  /// Steps over the next token if it is this symbol, or this keyword.
  bool ConsumeIf(std::string_view symbol);
  bool ConsumeKeyword(std::string_view word);
  /// Steps over a minus sign at the begin of the next word.
  bool ConsumeMinus();
  /// True if the next token is the name of a field, without quotes.
  bool NextIsKnown() const;
  /// True if there is such a field.
  bool IsKnown(const FieldName& field) const;
  /// The end of the last token taken.
  std::size_t taken_to() const { return taken_to_; }
  std::string_view text() const { return text_; }
  const QueryContext& context() const { return context_; }

  /// Takes a field: a name, in quotes where it has blanks or operators, or a
  /// function of a metric. A name that is known is never read as a function.
  FieldName ParseField();
  /// Asks for the meaning of the field that starts at `begin`. Throws the
  /// resolver's error, with the position, and a hint for a name such as `a*b`.
  ResolvedField Resolve(const FieldName& field, std::size_t begin) const;
  /// Resolves a field whose values are compared. Throws Error(kUsage) for
  /// spark(), which only draws a column.
  ResolvedField ResolveValue(const FieldName& field, std::size_t begin) const;

  /// Throws Error(kUsage): "OPTION: 'TEXT': expected X at character N; HINT".
  [[noreturn]] void Expected(const std::string& what, std::size_t at,
                             const std::string& hint = "") const;
  /// Throws Error(kind): "OPTION: 'TEXT': PROBLEM at character N; HINT".
  [[noreturn]] void Fail(ErrorKind kind, const std::string& problem,
                         std::size_t at, const std::string& hint = "") const;

 private:
  Token Read(std::size_t from) const;
  Token ReadQuoted(std::size_t from) const;
  std::string FindArithmetic(const std::string& name) const;
  FieldName ParseFunction(const Token& word);

  std::string_view text_;
  const QueryContext& context_;
  Token next_;
  std::size_t taken_to_ = 0;
};

}  // namespace dtrain
