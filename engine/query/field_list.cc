#include "engine/query/field_list.h"

#include <algorithm>

#include "engine/query/tokens.h"

namespace dtrain {
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
