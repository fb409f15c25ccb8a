#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain {

/// A text with placeholders: `{NAME}` stands for a value, `{{` and `}}` for the
/// braces themselves. A name consists of letters, digits and the characters
/// `_.-`. Values are inserted as they are, and never parsed again.
///
/// `{NAME:-ON}` and `{NAME:-ON|-OFF}` stand for -ON if the value is true, else
/// for -OFF or nothing; blanks and braces are not allowed in them.
struct TemplatePart {
  std::string text;    // the name, or literal text with single braces
  std::size_t at = 0;  // bytes before it in the template
  bool is_name = false;
  std::string on;   // "-ON"; empty: the value itself is inserted
  std::string off;  // "-OFF", or empty

  /// True for `{NAME:-ON}` and `{NAME:-ON|-OFF}`.
  bool is_flag() const { return !on.empty(); }
};

/// Returns the placeholder that begins with the brace at `at`, and its size in
/// bytes; a size of 0 if there is none.
std::pair<TemplatePart, std::size_t> FindPlaceholder(std::string_view text,
                                                     std::size_t at);

/// Error in a template, and its position.
struct TemplateProblem {
  std::string what;    // lowercase: what; what to do
  std::size_t at = 0;  // bytes before the brace
};

/// Returns the parts in their order, or the first problem.
std::variant<std::vector<TemplatePart>, TemplateProblem> ParseTemplate(
    std::string_view text);

/// Returns the template of a text in which braces are literal, except in
/// placeholders if `is_known` accepts the name and no `$` precedes them.
std::string TemplateOfLiteral(
    std::string_view text,
    const std::function<bool(std::string_view name)>& is_known);

/// Returns the text of a template. REQUIRES: ParseTemplate has no problem with
/// `text`, or it is returned unchanged.
std::string FillTemplate(
    std::string_view text,
    const std::function<std::string(const TemplatePart& name)>& value_of);

/// Returns the placeholder that is all of the text, or all of it after
/// `-OPTION=`; nothing if the text has others, or literal text.
std::optional<TemplatePart> OnlyPlaceholder(std::string_view text);

}  // namespace dtrain
