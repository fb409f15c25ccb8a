// Words with placeholders, {NAME} or {NAME:--on|--off}. There are two readings
// of a brace. ParseTemplate is strict: each brace is a placeholder, doubled, or
// an error. TemplateOfLiteral takes a text whose braces mean themselves, as in
// code and JSON, doubles them, and leaves only the placeholders of known names;
// `${NAME}` is a variable of the shell and none of ours.
//
// FillTemplate takes a text that was checked when the configuration was read,
// so a problem at that point leaves the text as it is.

#include "engine/base/placeholders.h"

#include <algorithm>

namespace dtrain {
std::pair<TemplatePart, std::size_t> FindPlaceholder(std::string_view text,
                                                     std::size_t at) {
  constexpr std::string_view kOfName =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  TemplatePart part{.at = at, .is_name = true};
  std::size_t end =
      std::min(text.find_first_not_of(kOfName, at + 1), text.size());
  part.text = text.substr(at + 1, end - at - 1);
  if (part.text.empty()) return {};
  for (std::string* option : {&part.on, &part.off}) {
    const char before = option == &part.on ? ':' : '|';
    if (end + 1 >= text.size() || text[end] != before) break;
    if (text[end + 1] != '-') break;
    const auto after = std::find_if(
        text.begin() + end + 1, text.end(),
        [](char c) { return c <= ' ' || c == '|' || c == '{' || c == '}'; });
    *option = std::string(text.begin() + end + 1, after);
    end += 1 + option->size();
  }
  if (end >= text.size() || text[end] != '}') return {};
  return {std::move(part), end + 1 - at};
}

std::variant<std::vector<TemplatePart>, TemplateProblem> ParseTemplate(
    std::string_view text) {
  std::vector<TemplatePart> parts;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool brace = c == '{' || c == '}';
    const bool doubled = brace && at + 1 < text.size() && text[at + 1] == c;
    if (!brace || doubled) {
      if (parts.empty() || parts.back().is_name) parts.push_back({.at = at});
      parts.back().text += c;
      if (doubled) ++at;
      continue;
    }
    if (c == '}') {
      return TemplateProblem{"'}' without '{'; write }} for a brace", at};
    }
    auto [part, bytes] = FindPlaceholder(text, at);
    if (bytes == 0) {
      const bool ascii =
          std::ranges::all_of(text.substr(at, text.find('}', at) - at),
                              [](unsigned char c) { return c < 0x80; });
      return TemplateProblem{
          std::string("'{' begins no placeholder; write {NAME}, ") +
              (ascii ? "" : "with letters of ASCII only, ") +
              "or {{ for a brace",
          at};
    }
    parts.push_back(std::move(part));
    at += bytes - 1;
  }
  return parts;
}

std::string TemplateOfLiteral(
    std::string_view text,
    const std::function<bool(std::string_view name)>& is_known) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' && (at == 0 || text[at - 1] != '$')) {
      const auto [part, bytes] = FindPlaceholder(text, at);
      if (bytes > 0 && is_known(part.text)) {
        out.append(text.substr(at, bytes));
        at += bytes - 1;
        continue;
      }
    }
    out += c;
    if (c == '{' || c == '}') out += c;
  }
  return out;
}

std::string FillTemplate(
    std::string_view text,
    const std::function<std::string(const TemplatePart& name)>& value_of) {
  const auto parsed = ParseTemplate(text);
  const auto* parts = std::get_if<std::vector<TemplatePart>>(&parsed);
  if (parts == nullptr) return std::string(text);
  std::string out;
  for (const TemplatePart& part : *parts) {
    out += part.is_name ? value_of(part) : part.text;
  }
  return out;
}

std::optional<TemplatePart> OnlyPlaceholder(std::string_view text) {
  const auto parsed = ParseTemplate(text);
  const auto* parts = std::get_if<std::vector<TemplatePart>>(&parsed);
  if (parts == nullptr || parts->empty() || !parts->back().is_name) {
    return std::nullopt;
  }
  const std::string& before = parts->front().text;
  const bool after_option = parts->size() == 2 && !parts->front().is_name &&
                            before.starts_with('-') &&
                            before.find('=') == before.size() - 1;
  if (parts->size() > 1 && !after_option) return std::nullopt;
  return parts->back();
}

}  // namespace dtrain
