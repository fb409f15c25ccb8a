#include "engine/base/python_json.h"

namespace dtrain {

std::string QuoteNonFinite(std::string_view text) {
  const bool has_any =
      text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
  if (!has_any) return std::string(text);
  std::string quoted;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      quoted += c;
      quoted += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (in_string || replaced || !text.substr(i).starts_with(word)) continue;
      quoted.append("\"").append(word).append("\"");
      i += word.size() - 1;
      replaced = true;
    }
    if (!replaced) quoted += c;
  }
  return quoted;
}

}  // namespace dtrain
