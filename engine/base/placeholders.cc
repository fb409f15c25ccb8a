#include "engine/base/placeholders.h"

#include <algorithm>

namespace dtrain {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

// Returns the name of the placeholder that starts with the brace at `at`; empty
// if there is none.
std::string_view NameAt(std::string_view text, std::size_t at) {
  const std::size_t close = text.find('}', at);
  if (close == text.npos) return {};
  const std::string_view name = text.substr(at + 1, close - at - 1);
  return std::ranges::all_of(name, IsNameCharacter) ? name : std::string_view();
}

void AddLiteral(char c, std::size_t at, std::vector<TemplatePart>& parts) {
  if (parts.empty() || parts.back().is_name) parts.push_back({.at = at});
  parts.back().text += c;
}

}  // namespace

std::variant<std::vector<TemplatePart>, TemplateProblem> ParseTemplate(
    std::string_view text) {
  std::vector<TemplatePart> parts;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool brace = c == '{' || c == '}';
    const bool doubled = brace && at + 1 < text.size() && text[at + 1] == c;
    if (!brace || doubled) {
      AddLiteral(c, at, parts);
      if (doubled) ++at;
      continue;
    }
    if (c == '}') {
      return TemplateProblem{"'}' without '{'; write }} for a brace", at};
    }
    const std::string_view name = NameAt(text, at);
    if (name.empty()) {
      return TemplateProblem{
          "'{' begins no placeholder; write {NAME}, or {{ for a brace", at};
    }
    parts.push_back({.text = std::string(name), .at = at, .is_name = true});
    at += name.size() + 1;
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
      const std::string_view name = NameAt(text, at);
      if (!name.empty() && is_known(name)) {
        out.append("{").append(name) += '}';
        at += name.size() + 1;
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
    const std::function<std::string(const std::string& name)>& value_of) {
  const auto parsed = ParseTemplate(text);
  const auto* parts = std::get_if<std::vector<TemplatePart>>(&parsed);
  if (parts == nullptr) return std::string(text);
  std::string out;
  for (const TemplatePart& part : *parts) {
    out += part.is_name ? value_of(part.text) : part.text;
  }
  return out;
}

}  // namespace dtrain
