#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dtrain {

/// A text with placeholders: `{NAME}` stands for a value, `{{` and `}}` for the
/// braces themselves. A name consists of letters, digits and the characters
/// `_.-`. Values are inserted as they are, and never parsed again.
struct TemplatePart {
  std::string text;    // the name, or literal text with single braces
  std::size_t at = 0;  // bytes before it in the template
  bool is_name = false;
};

/// Why a text is no template, and where.
struct TemplateProblem {
  std::string what;    // lowercase: what; what to do
  std::size_t at = 0;  // bytes before the brace
};

/// Returns the parts in their order, or the first problem.
std::variant<std::vector<TemplatePart>, TemplateProblem> ParseTemplate(
    std::string_view text);

/// Returns the template of a text in which braces are literal, except in
/// `{NAME}` if `is_known` accepts the name and no `$` precedes it.
std::string TemplateOfLiteral(
    std::string_view text,
    const std::function<bool(std::string_view name)>& is_known);

/// Returns the text of a template. REQUIRES: ParseTemplate has no problem with
/// `text`, or it is returned unchanged.
std::string FillTemplate(
    std::string_view text,
    const std::function<std::string(const std::string& name)>& value_of);

}  // namespace dtrain
